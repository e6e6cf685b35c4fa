#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/rank/rank.hpp"
#include "layers/formats/model_weights.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// Fills a rank's parameters from the seed: a function of (seed, tensor name, element), whoever owns the tensor. Optimizer states stay
/// zero.
void initialize_from_seed(Rank& rank, std::uint64_t seed);
/// Initialises them from a Hugging Face folder. Errors: Error(model).
void initialize_from_folder(Rank& rank, const std::string& folder);
/// What is taken from a checkpoint.
struct Taken {
  bool states = true;     // the optimizer's, where the rank trains; false: they begin as in a new run
  bool averages = false;  // for parameters their moving averages, where they have one
};

/// … parameters, and the optimizer's states, from a checkpoint, whatever layout wrote it. Every chunk is verified. Errors:
/// Error(checkpoint).
void initialize_from_checkpoint(Rank& rank, const runtime::CheckpointReader& checkpoint, const Taken& taken = {});

/// The same for one shard. `model` are the parameters of the whole model, in model order; of weights of experts the shard gets those that
/// it has, so that nothing depends on which rank has which of them.
void fill_from_seed(const kernels::ExecutionContext& context, const runtime::StageShard& shard,
                    const std::vector<layers::ParameterSpec>& model, double range, std::uint64_t seed);
void fill_from_weights(const kernels::ExecutionContext& context, const runtime::StageShard& shard,
                       const std::vector<layers::ParameterSpec>& model, const layers::ModelWeights& weights);
void fill_from_checkpoint(const kernels::ExecutionContext& context, const runtime::StageShard& shard,
                          const runtime::CheckpointReader& checkpoint, const Taken& taken = {});

}  // namespace millrace::actors
