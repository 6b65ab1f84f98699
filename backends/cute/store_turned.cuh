// Columns of turned tiles leave by boxes, one of each part for each warp.

constexpr int boxes_across = 4 / (atom_rows / turned_rows);  // of a part's four, of which each warp has one
constexpr int box_columns = plan::store_columns / boxes_across;
constexpr int box_bytes = box_columns * swizzle_row;

template <int part, int buffer>
CUTLASS_DEVICE void store_c(Cta const &cta, Held const &held, int group, int warp) {
    void const *map = &cta.maps.c[0], *from = buffer_of(cta, group, buffer) + warp * box_bytes;
    int const block = (plan::ping_pong ? 0 : group * atoms) + part / plan::parts;
    int const first = held.tile.m + block * atom_rows + warp / boxes_across * turned_rows;
    int const second = held.tile.n + first_column(part) + warp % boxes_across * box_columns;
    if constexpr (plan::columns_cut) {  // of the window that ends where the box does, or its group
        int const left = min(box_columns, held.tile.end - second);
        if (left > 0) cute::SM90_TMA_STORE_3D::copy(map, from, first, box_columns - left, second + left);
    } else {
        store_box(map, from, first, second, held.tile);
    }
}
