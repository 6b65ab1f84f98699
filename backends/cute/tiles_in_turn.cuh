// A warpgroup stores a tile before it multiplies the next.
CUTLASS_DEVICE void compute_tiles(Block const &block, int warpgroup, int warp, int lane, float scale) {
    Ring ring;
    Sums sums[own_blocks];
    int number = block.first_tile;
    // Warpgroups that take turns let pass by what the other one multiplies.
    auto pass = [&](int passed) {
        if (plan::alternate && passed < block.tiles) ring.advance(block.stages(block.tile(passed)));
    };
    if (plan::alternate && warpgroup) {
        pass(number);
        give_turn(warpgroup);
        number += block.tile_step;
    }
    for (; number < block.tiles; number += (plan::alternate ? plan::warpgroups : 1) * block.tile_step) {
        Tile const tile = block.tile(number);
        if constexpr (plan::alternate) take_turn(warpgroup);
        multiply(block, tile, ring, sums, warpgroup, warp, lane);
        if constexpr (plan::alternate) give_turn(warpgroup);
        pass(number + block.tile_step);
        if constexpr (plan::scaled) multiply_by(sums, scale);
        store_tile(block, tile, sums, warpgroup, warp, lane);
    }
}
