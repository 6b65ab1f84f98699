"""Rounds of shared memory that one access takes, on NVIDIA's and AMD's banks, by the pitch of a tile's rows."""

import legalsat as ls

for target, instruction, lanes in (("h200", "ld.b128", 32), ("mi300x", "ds_read_b128", 64)):
    for pitch in (256, 272, 288):
        rounds = ls.bank_wavefronts(instruction, [pitch * lane for lane in range(lanes)], target)
        print(f"{target}, rows {pitch} bytes apart: {rounds} rounds")
