#pragma once

#include <string>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// When one microbatch's forwards and input gradients start on one rank of a V placement, in units of one such action. The next
/// microbatch does the same 6 units later, so the four must differ mod 6; the two weight gradients take the two places that are left.
/// Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, arXiv 2405.15362, section 3: the time from F to W
/// is what a schedule holds in memory, so a block with short lives makes a schedule with a small peak.
struct BuildingBlock {
  int forward_down = 0;  // chunk 0, on the way to the bend
  int forward_up = 0;    // chunk 1, on the way back
  int input_up = 0;
  int input_down = 0;
};

/// The schedule that a block (given by number of ranks and rank) makes: F and I in the block's order, everything as early as it can be
/// with F = I = W, and a W, oldest first, wherever the next F or I is not ready, where the block's memory is used up before an F, and
/// at the end.
[[nodiscard]] Schedule repeat_block(std::string name, int ranks, int microbatches, BuildingBlock (*block)(int ranks, int rank));

/// The memory of a rank while blocks repeat for ever, in stashes of one chunk, with the weight gradients in the better of the two ways.
[[nodiscard]] int block_memory(const BuildingBlock& block);

}  // namespace millrace::runtime
