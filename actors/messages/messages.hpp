#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "actors/messages/step_metrics.hpp"
#include "cluster/links/link.hpp"
#include "runtime/checkpoint/checkpoint_warning.hpp"
#include "runtime/engine/load_balance.hpp"
#include "runtime/engine/observation_sums.hpp"
#include "runtime/engine/optimizer_step.hpp"
#include "runtime/engine/qk_clip.hpp"
#include "runtime/engine/stage.hpp"
#include "runtime/engine/step_loss.hpp"
#include "runtime/ids.hpp"
#include "runtime/optimizers/run_state.hpp"
#include "runtime/schedule/action.hpp"

/// All messages between actors. Messages between the coordinator and the ranks concern phases, O(ranks) per step whatever the
/// number of microbatches; they cross processes over the control link, so each lists its fields in tie() (wire.hpp). The others
/// stay within a process. Tensors are never part of a message.
namespace millrace::actors {

// -- coordinator → rank -------------------------------------------------------------------------------------------------------------------

/// Run the training table on the batches of this step, counted from 0. (Evaluate and TakeSnapshot have the number of finished
/// steps.)
struct RunStep {
  std::int64_t step = 0;
  bool find_nan = false;  // check the results of every operation, and fail at the first value that is not finite
  bool again = false;     // the step was run without an update: run it again from its start
  auto tie() { return std::tie(step, find_nan, again); }
};

/// All gradients are known and finite: update or, if the step is skipped, drop the gradients; then move the routers' biases, and then
/// scale down the heads whose scores are too large.
/// gradient_scale is the clipping factor, update is counted from 1.
struct Optimize {
  std::int64_t step = 0, update = 1;
  double gradient_scale = 1, learning_rate = 0;
  runtime::BiasUpdate biases = {};
  bool skip = false;
  runtime::QkClip scores = {};
  auto tie() { return std::tie(step, update, gradient_scale, learning_rate, biases, skip, scores); }
};

/// Copy parameters and optimizer states into staging; the process's checkpoint actor writes them to `folder` meanwhile, and that of rank 0
/// the state of the run too.
struct TakeSnapshot {
  std::int64_t step = 0;
  std::string folder;
  runtime::RunState run = {};
  auto tie() { return std::tie(step, folder, run); }
};

/// Run the forward-only table over the first `microbatches` held-out microbatches. 0: abandon the running evaluation, whose
/// losses are no longer needed. `average`: with the moving averages of the parameters in their place.
struct Evaluate {
  std::int64_t step = 0, microbatches = 0;
  bool average = false;
  auto tie() { return std::tie(step, microbatches, average); }
};

/// Run one forward over tokens, beginning with the first row; the head answers with the logits at `position`. If positions and
/// segments are empty: positions 0…T−1 and a single document.
struct ComputeLogits {
  std::vector<std::int32_t> tokens;
  std::int64_t position = 0;
  std::vector<std::int32_t> positions, segments;
  auto tie() { return std::tie(tokens, position, positions, segments); }
};

/// Send back what the hooks captured in the last step, and every gradient, or every parameter (parity).
struct Collect {
  bool parameters = false;  // else gradients
  auto tie() { return std::tie(parameters); }
};

/// Accept nothing more, drain and quit.
struct Stop {
  auto tie() { return std::tie(); }
};

using ToRank = std::variant<RunStep, Optimize, TakeSnapshot, Evaluate, ComputeLogits, Collect, Stop>;

// -- rank → coordinator -------------------------------------------------------------------------------------------------------------------

struct RankReady {
  std::int32_t rank = 0;
  std::uint64_t planned_bytes = 0;
  auto tie() { return std::tie(rank, planned_bytes); }
};

/// The composition of a rank's time from RunStep to its report, from its trace ring; nanoseconds.
struct StepTimes {
  std::int64_t wall = 0, compute = 0, bubble = 0, wait = 0, exchange = 0, data = 0, reduction = 0;
  [[nodiscard]] std::int64_t other() const { return wall - compute - bubble - wait - exchange - data - reduction; }
  auto tie() { return std::tie(wall, compute, bubble, wait, exchange, data, reduction); }
};

/// The list is finished and gradients are in their slots.
struct StepReport {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::vector<runtime::TensorSquareSum> squares;
  std::vector<runtime::LossTermSums> losses;  // the loss terms of the rank's stages
  StepTimes times;
  std::uint64_t device_used = 0, device_total = 0;                         // bytes of the rank's GPU; 0 on a CPU
  std::vector<double> metrics = std::vector<double>(step_metrics.size());  // the rank's values of step_metrics, in their order
  std::vector<runtime::ObservedSums> observed = {};                        // the observations of the rank's stages
  auto tie() { return std::tie(rank, step, squares, losses, times, device_used, device_total, metrics, observed); }
};

struct Optimized {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  auto tie() { return std::tie(rank, step); }
};

/// The hash of a parameter that two ranks hold (a tied table, a replica's weights, the same experts); compared at each save.
struct CopyHash {
  std::string name, hash;
  auto tie() { return std::tie(name, hash); }
};

/// Parameters and optimizer states are in staging; the next step may change them.
struct SnapshotTaken {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::vector<CopyHash> copies;
  auto tie() { return std::tie(rank, step, copies); }
};

/// The rank's shard is on the disk and verified, or `error` says why not.
struct ShardWritten {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::string report;  // runtime::ShardReport as JSON
  std::string error;
  auto tie() { return std::tie(rank, step, report, error); }
};

struct EvaluationReport {
  std::int32_t rank = 0;
  std::vector<runtime::LossTermSums> losses;  // the loss terms of the stages that ran
  auto tie() { return std::tie(rank, losses); }
};

/// Answer to ComputeLogits: empty except from the rank of the head that ran.
struct LogitsReport {
  std::int32_t rank = 0;
  std::vector<float> logits;
  auto tie() { return std::tie(rank, logits); }
};

/// One captured tensor, as fp32. Of a weight of experts it may be some: those from `first` on, of `experts`; of a weight that replicas
/// divide the elements from `begin` on, so many, counted over the whole tensor.
struct CapturedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::int64_t first = 0, experts = 0;
  std::int64_t begin = 0, count = -1;  // −1: all elements of `shape`
  auto tie() { return std::tie(name, shape, values, first, experts, begin, count); }
};

/// Answer to Collect: one message per tensor, several for a large one with its values in order, and a final one with `last` set.
struct Collected {
  std::int32_t rank = 0;
  bool last = false;
  CapturedTensor tensor;
  auto tie() { return std::tie(rank, last, tensor); }
};

/// A rank cannot continue. The first such message ends the job.
struct StageFailed {
  std::int32_t rank = -1, stage = -1;
  std::int64_t step = -1, microbatch = -1;
  std::string action;
  std::int32_t code = 70;
  std::string cause;
  auto tie() { return std::tie(rank, stage, step, microbatch, action, code, cause); }
};

using ToCoordinator =
    std::variant<RankReady, StepReport, Optimized, SnapshotTaken, ShardWritten, EvaluationReport, LogitsReport, Collected, StageFailed>;

// -- inside a process ---------------------------------------------------------------------------------------------------------------------

/// Sent to a rank actor once all actors of the process exist: report RankReady.
struct Begin {};

/// The bytes to copy between a slot of a link's ring and its place for a GPU's programs; empty if they are the same place.
struct SlotCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  // For a channel whose messages are sent in parts:
  std::size_t part_bytes = 0;  // 0: whole
  int channel = -1;
  std::int64_t sequence = 0;
  [[nodiscard]] bool present() const noexcept { return to != nullptr; }
};

/// Rank actor → stage actor: run one pass with these slots.
struct Execute {
  std::int32_t index = 0;  // in the rank's list
  runtime::Action action;
  std::int32_t segment = 0, segments = 1;  // of the action: where its exchanges divide it
  std::int64_t first_exchange = 0;         // the number of the first exchange that it posts, counted over the run
  std::int32_t posts = 0;
  runtime::Pass pass = runtime::Pass::forward;
  runtime::ExecutionSlots slots;
  std::int64_t step = 0;
  bool first_of_batch = false;  // first action of the list on this microbatch: its tokens are still in host memory
  // The sum of the list that it completes and replicas add (ListedSum), if the rank has one set of it; -1: none.
  std::int32_t completes = -1;
  SlotCopy arrival, departure;  // for a rank on a GPU: copies before and after the pass
};

/// Stage actor's compute → rank actor: the action, or a segment of it, is done. Steady clock, nanoseconds.
struct ActionDone {
  runtime::Action action;
  std::int32_t segment = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t host = 0;  // the worker's time to enqueue it; on a CPU, to run it
};

/// Link → rank actor: message `sequence` of a channel is in its slot.
struct BoundaryArrived {
  cluster::Arrival arrival;
};

/// Link → rank actor: the slot of `sequence` may be written again.
struct SlotWritable {
  std::int32_t channel = 0;
  std::int64_t sequence = 0;
};

/// Exchanges → rank actor: exchange `sequence` has ended.
struct ExchangeEnded {
  std::int64_t sequence = 0;
};

/// Rank actor → loader: fill a batch slot, with the microbatch of a training step or with a held-out one.
struct LoadBatch {
  std::int64_t step = 0, microbatch = 0;
  std::int32_t slot = 0;
  bool held_out = false;
  std::int32_t turn = 0;  // of the training batches; requests from before a step is run again are stale
};

/// Loader → rank actor.
struct BatchReady {
  LoadBatch request;
};

/// Replicas → rank actor: an exchange of theirs has ended (ReplicaExchange).
struct ReplicasExchanged {};

/// Rank-wide work that the compute worker has completed.
enum class RankTaskKind : std::uint8_t {
  clear,
  sums,
  sums_sent,
  sums_added,
  squares,
  optimizer,
  snapshot,
  averages,
  // Where replicas divide the update:
  list_sum,   // the list has completed what replicas add together (ListedSum)
  transfers,  // what can be done of their transfers
  uses,       // several uses of a weight, after the reduction
};
struct TaskDone {
  RankTaskKind work = RankTaskKind::sums;
  std::int64_t begin = 0, end = 0;  // steady clock, nanoseconds
};

/// The worker or the loader failed; has the content of the Error.
struct TaskFailed {
  runtime::Action action;
  bool in_action = false;
  std::int32_t code = 70;
  std::string cause;
};

/// Rank actor → checkpoint actor: write the rank's staged state to `folder`, and the state of the run, which only rank 0 has.
struct WriteShard {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::string folder;
  runtime::RunState run = {};
};

/// Coordinator actor → checkpoint actor of process 0, after all ranks have written: commit the attempt in `folder`, or discard
/// it.
struct CommitCheckpoint {
  std::int64_t step = 0;
  std::string folder;
  std::vector<std::string> reports;
};
struct DiscardCheckpoint {
  std::int64_t step = 0;
  std::string folder;
  std::string why;
};
/// The answer to both. If the error is empty, the checkpoint is committed.
struct CheckpointCommitted {
  std::int64_t step = 0;
  std::string error;
  std::vector<runtime::CheckpointWarning> warnings;
};

}  // namespace millrace::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ToRank)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ToCoordinator)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::Begin)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::Execute)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ActionDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::BoundaryArrived)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::SlotWritable)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ExchangeEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ReplicasExchanged)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::LoadBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::BatchReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::TaskDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::TaskFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::WriteShard)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ShardWritten)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::CommitCheckpoint)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::DiscardCheckpoint)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::CheckpointCommitted)
