#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/jobs/run_directory.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/session.hpp"
#include "kernels/base/device.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::actors {

/// Where a run begins: the same in all processes.
struct RunBeginning {
  std::int64_t step = 0;     // number of finished steps
  std::int64_t threads = 0;  // per rank
  bool whole = false;        // nothing is held out, as in the run that wrote the checkpoint
  bool evaluated = false;    // the evaluation after `step` is on record
  std::string checkpoint;    // of the run itself, its folder; empty: a new run

  // A new run that begins with the state of another one (train.start_from).
  std::string source;               // the folder of its checkpoint; empty: the run begins with the seed or the model's folder
  std::string source_hash;          // of that checkpoint's tensors
  std::int64_t source_step = 0;     // its finished steps
  std::int64_t updates_before = 0;  // that the optimizer states that are taken have seen

  bool operator==(const RunBeginning&) const = default;
};
/// For the message between processes, and its inverse.
[[nodiscard]] std::string to_text(const RunBeginning& beginning);
[[nodiscard]] RunBeginning beginning_from_text(const std::string& text);

/// Collective: process 0 determines where the run begins, and broadcasts it. `directory`: in process 0 that of the run, or null.
/// Threads per rank: train.threads, else a share of the cores. A checkpoint of another run is compared with
/// the model. Errors: Error(checkpoint).
[[nodiscard]] RunBeginning agree_on_beginning(Session& session, const runtime::TrainConfig& train, const PipelinePlan& plan,
                                              const RunDirectory* directory);

/// Names and values that affect the bits of a run but are not part of its identity: recorded in checkpoints, and free to change on
/// resume. `build` identifies the binary.
using Notes = std::map<std::string, std::string>;
[[nodiscard]] Notes arithmetic_notes(kernels::DeviceKind kind, const std::string& build);
/// The CPU's vector instructions that the kernels use: one of the notes.
[[nodiscard]] std::string instruction_set();
/// One warning for each note that differs from the checkpoint's.
[[nodiscard]] std::vector<std::string> changed_notes(const runtime::CheckpointReader& checkpoint, const Notes& now);

}  // namespace millrace::actors
