// A warpgroup stores a tile, some parts a stage, while the first stages of the next one are multiplied. Until then the
// tile waits in registers, as C's type.
CUTLASS_DEVICE void compute_tiles(Block const &block, int warpgroup, int warp, int lane, float scale) {
    constexpr int stages = plan::deferred_stages;
    Ring ring;
    Sums sums[own_blocks];
    Kept kept[own_blocks] = {};
    Tile before{block.sizes.m, 0, 0, 0, 0, 0, 0};  // outside of C
    auto const aside = [&](auto number) {
        constexpr int first = number * own_parts / stages, last = (number + 1) * own_parts / stages;
        store_parts<first>(block, before, kept, warpgroup, warp, lane, std::make_integer_sequence<int, last - first>());
    };
    for (int number = block.first_tile; number < block.tiles; number += block.tile_step) {
        Tile const tile = block.tile(number);
        multiply(block, tile, ring, sums, warpgroup, warp, lane, aside, std::make_integer_sequence<int, stages>());
        if constexpr (plan::scaled) multiply_by(sums, scale);
        keep(sums, kept);
        before = tile;
    }
    store_kept(block, before, kept, warpgroup, warp, lane);
}
