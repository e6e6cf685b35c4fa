#pragma once

#include <vector>

#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/engine/stage_shard.hpp"

namespace millrace::actors {

/// Appends the tensors of a stage's last snapshot that its rank is to write: parameters and optimizer states, those of weights of experts
/// as the slices that the rank has. Their bytes are in the snapshot.
void add_snapshot(const runtime::StageShard& shard, std::vector<runtime::CheckpointTensor>& tensors);

}  // namespace millrace::actors
