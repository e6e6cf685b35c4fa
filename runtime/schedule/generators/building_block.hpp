#pragma once

#include <string>

#include "runtime/schedule/schedule.hpp"

namespace millrace::runtime {

/// The times at which one microbatch's forwards and input gradients start on one rank of a V placement, in units of one such
/// action. The next microbatch does the same 6 units later, so the four times must differ mod 6; the two weight gradients take
/// the two remaining residues. Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, arXiv
/// 2405.15362, section 3: a microbatch holds memory from F to W, so a block with short lifetimes gives a schedule with a small
/// peak.
struct BuildingBlock {
  int forward_down = 0;  // chunk 0, on the way to the bend
  int forward_up = 0;    // chunk 1, on the way back
  int input_up = 0;
  int input_down = 0;
};

/// The schedule that results from repeating a block, which is a function of the number of ranks and the rank. F and I run in the
/// block's order, each as early as possible for F = I = W. A W, the oldest first, runs wherever the next F or I is not ready,
/// wherever the block's memory is used up before an F, and at the end.
[[nodiscard]] Schedule repeat_block(std::string name, int ranks, int microbatches, BuildingBlock (*block)(int ranks, int rank));

/// The peak memory of a rank if blocks repeat forever, in stashes of one chunk, with the better of the two orders of the weight
/// gradients.
[[nodiscard]] int block_memory(const BuildingBlock& block);

}  // namespace millrace::runtime
