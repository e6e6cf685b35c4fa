#pragma once

#include <cstdint>
#include <string>

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"

/// What a new run takes from another one (train.start_from, train.start_with): the checkpoint, whether it fits, and what of it belongs to
/// the identity of the new run. Errors: Error(checkpoint).
namespace millrace::actors {

/// The identity key of what was taken. Its value names run, step and content of the checkpoint, not its place: the other run may be moved.
inline constexpr const char* start_key = "train.start_from";

/// Whether optimizer states are taken too.
[[nodiscard]] bool takes_state(const runtime::TrainConfig& train);

/// Opens the checkpoint that `start_from` names: a checkpoint's folder, or a run directory, of which it is the newest one or, if `recorded`
/// is not empty, the one that this value of start_key names. An error names the key.
[[nodiscard]] runtime::CheckpointReader open_start(const std::string& start_from, const std::string& recorded = "");

/// Refuses a checkpoint whose tensors are not those of the model, with the tensor's name and both shapes, and, if
/// optimizer states are taken, one of another optimizer. Its layout does not matter.
void check_start(const runtime::CheckpointReader& source, const PipelinePlan& plan, const runtime::TrainConfig& train);

/// The value of start_key in the identity of a run's own checkpoint; empty if the run began without another one.
[[nodiscard]] std::string recorded_start(const runtime::CheckpointReader& checkpoint);

/// The value of start_key for a run that begins with this checkpoint.
[[nodiscard]] std::string start_identity(const runtime::CheckpointReader& source);

/// The same for a run that is resumed, whose checkpoint has the value `recorded` (empty: it began without another run). It is `recorded`
/// if the other run is gone, or if `start_from` names that run, which may have gone on since.
[[nodiscard]] std::string resumed_start_identity(const std::string& start_from, const std::string& recorded);

/// Refuses a resumed run whose value of start_key, `now`, is not that of its checkpoint. The message names the folders: `start_from`, and
/// the note of the checkpoint, which older ones lack.
void check_resumed_start(const runtime::CheckpointReader& checkpoint, const std::string& start_from, const std::string& now);

/// The note of a run's checkpoints that says in which folder it began; empty if it began without another run, or if that is not known.
[[nodiscard]] std::string noted_start(const runtime::CheckpointReader& checkpoint);

/// The updates that the optimizer's states in a checkpoint have seen.
[[nodiscard]] std::int64_t updates_seen(const runtime::CheckpointReader& source);

/// "weights and optimizer states", or "weights".
[[nodiscard]] const char* taken_text(bool state);

}  // namespace millrace::actors
