#pragma once

#include <cstdint>
#include <string>

#include "actors/rank/rank.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// Fills a rank's parameters from the seed: a function of (seed, tensor name, element), whoever owns the tensor. Optimizer states stay
/// zero.
void initialize_from_seed(Rank& rank, std::uint64_t seed);
/// Initialises them from a Hugging Face folder. Errors: Error(model).
void initialize_from_folder(Rank& rank, const std::string& folder);
/// … parameters, and the optimizer's states where the rank trains, from a checkpoint, whatever layout wrote it. Every chunk is verified.
/// Errors: Error(checkpoint).
void initialize_from_checkpoint(Rank& rank, const runtime::CheckpointReader& checkpoint);

}  // namespace millrace::actors
