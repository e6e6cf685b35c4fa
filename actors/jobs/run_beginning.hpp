#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/setup/session.hpp"
#include "kernels/base/device.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// Where a run begins: the same in all processes.
struct RunBeginning {
  std::int64_t step = 0;     // number of finished steps
  std::int64_t threads = 0;  // per rank
  bool whole = false;        // nothing is held out, as in the run that wrote the checkpoint
  std::string checkpoint;    // its folder; empty: start from the seed or the model's folder
};

/// Collective: process 0 determines where the run begins, and broadcasts it. `checkpoint`: in process 0 the one to resume from, or null.
/// `threads`: train.threads; 0: those of the checkpoint, else a share of the cores.
[[nodiscard]] RunBeginning agree_on_beginning(Session& session, std::int64_t threads, const runtime::CheckpointReader* checkpoint);

/// Names and values that affect the bits of a run but are not part of its identity: recorded in checkpoints, and free to change on
/// resume. `build` identifies the binary.
using Notes = std::map<std::string, std::string>;
[[nodiscard]] Notes arithmetic_notes(kernels::DeviceKind kind, const std::string& build);
/// The CPU's vector instructions that the kernels use: one of the notes.
[[nodiscard]] std::string instruction_set();
/// One warning for each note that differs from the checkpoint's.
[[nodiscard]] std::vector<std::string> changed_notes(const runtime::CheckpointReader& checkpoint, const Notes& now);

}  // namespace millrace::actors
