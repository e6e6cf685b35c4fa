#pragma once

#include <vector>

#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/engine/stage_shard.hpp"

namespace millrace::actors {

/// Appends the tensors of a stage's last snapshot that its rank is to write: what it reports of parameters and
/// optimizer states, as slices where it does not have all of a tensor. Their bytes are in the snapshot.
void add_snapshot(const runtime::StageShard& shard, std::vector<runtime::CheckpointTensor>& tensors);

}  // namespace millrace::actors
