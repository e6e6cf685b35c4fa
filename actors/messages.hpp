#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/engine/ids.hpp"
#include "runtime/schedule/action.hpp"

/// Every message between actors. Between the coordinator and the ranks travel the phases, O(ranks) a step whatever the number of microbatches; they cross
/// processes over the control link, so each tells its fields by tie() (wire.hpp). The others stay inside a process; tensors are never in a message.
namespace millrace::actors {

// -- coordinator → rank -------------------------------------------------------------------------------------------------------------------

/// Run the training table on the batches of this step.
struct RunStep {
  std::int64_t step = 0;
  auto tie() { return std::tie(step); }
};

/// All gradients are known and finite: update. gradient_scale is the clip's, update counts from 1.
struct Optimize {
  std::int64_t step = 0, update = 1;
  double gradient_scale = 1, learning_rate = 0;
  auto tie() { return std::tie(step, update, gradient_scale, learning_rate); }
};

/// Copy parameters and moments into staging; the process's checkpoint actor writes them to `folder` meanwhile.
struct TakeSnapshot {
  std::int64_t step = 0;
  std::string folder;
  auto tie() { return std::tie(step, folder); }
};

/// Run the forward-only table over the first `microbatches` held-out microbatches.
struct Evaluate {
  std::int64_t step = 0, microbatches = 0;
  auto tie() { return std::tie(step, microbatches); }
};

/// One forward over one row of tokens; the head answers with the logits at `position`.
struct ComputeLogits {
  std::vector<std::int32_t> tokens;
  std::int64_t position = 0;
  auto tie() { return std::tie(tokens, position); }
};

/// Send back what the hooks captured in the last step, and every gradient (parity).
struct Collect {
  auto tie() { return std::tie(); }
};

/// Stop accepting, drain, quit.
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

/// Sum of squares of one gradient; `tensor` is its place in model order.
struct TensorSquares {
  std::int32_t tensor = 0;
  double squares = 0;
  auto tie() { return std::tie(tensor, squares); }
};

/// Where a rank's time went between RunStep and the end of its list, from its trace ring; nanoseconds.
struct StepTimes {
  std::int64_t wall = 0, compute = 0, bubble = 0, wait = 0, data = 0;
  auto tie() { return std::tie(wall, compute, bubble, wait, data); }
};

/// The list is done, gradients are in their slots.
struct StepReport {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::vector<TensorSquares> squares;
  std::vector<double> losses;  // loss sum of each microbatch, from the rank that owns the head
  StepTimes times;
  std::uint64_t resident_bytes = 0;
  auto tie() { return std::tie(rank, step, squares, losses, times, resident_bytes); }
};

struct Optimized {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  auto tie() { return std::tie(rank, step); }
};

/// Hash of one parameter that two ranks hold (a tied table); compared at each save.
struct TiedHash {
  std::string name, hash;
  auto tie() { return std::tie(name, hash); }
};

/// Parameters and moments are in staging; the next step may change them.
struct SnapshotTaken {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::vector<TiedHash> tied;
  auto tie() { return std::tie(rank, step, tied); }
};

/// The rank's shard is on disk and verified, or `error` says why not.
struct ShardWritten {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::string report;  // runtime::ShardReport as JSON
  std::string error;
  auto tie() { return std::tie(rank, step, report, error); }
};

struct EvaluationReport {
  std::int32_t rank = 0;
  std::vector<double> losses;  // by microbatch, from the head's rank
  auto tie() { return std::tie(rank, losses); }
};

/// Answer to ComputeLogits: empty but from the head's rank.
struct LogitsReport {
  std::int32_t rank = 0;
  std::vector<float> logits;
  auto tie() { return std::tie(rank, logits); }
};

/// One captured tensor, as fp32.
struct CapturedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  auto tie() { return std::tie(name, shape, values); }
};

struct Collected {
  std::int32_t rank = 0;
  std::vector<CapturedTensor> tensors;
  auto tie() { return std::tie(rank, tensors); }
};

/// A rank cannot go on. The first one wins and ends the job.
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

/// What a stage leaves for the coordinator when a whole phase is done on it.
enum class StagePhase : std::uint8_t { gradients, optimize, snapshot, collect };

/// Rank actor → stage actor: run one action with these slots (indices into rings; -1: none).
struct Execute {
  runtime::Action action;
  std::int32_t batch_slot = 0, stash_input_slot = 0, stash_weight_slot = 0, handoff_slot = 0;
  std::int32_t token_in_slot = -1, token_out_slot = -1, gradient_in_slot = -1, gradient_out_slot = -1;
};

/// Stage actor → rank actor, sent by the compute worker when the action is done. times: steady clock, nanoseconds.
struct ActionDone {
  runtime::Action action;
  std::int64_t begin = 0, end = 0;
};

/// Link → rank actor: token `sequence` lies in slot sequence % depth of an edge's ring.
struct TokenArrived {
  std::int32_t channel = 0;
  std::int64_t sequence = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::int64_t producer_finish = 0;  // 0: another host's clock
};

/// Link → rank actor: the slot of `sequence` may be written again.
struct SlotWritable {
  std::int32_t channel = 0;
  std::int64_t sequence = 0;
};

/// Rank actor → loader: fill the batches of a step (or of an evaluation) into their slots.
struct LoadBatches {
  std::int64_t step = 0;
  std::int32_t microbatches = 0;
  bool held_out = false;
};

/// Loader → rank actor.
struct BatchReady {
  std::int64_t step = 0;
  std::int32_t microbatch = 0;
  bool held_out = false;
};

/// Something that the compute worker was asked to do besides actions is done; `ticket` tells what.
struct WorkDone {
  std::int32_t ticket = 0;
};

/// The worker could not finish: what Error said.
struct WorkFailed {
  runtime::Action action;
  bool in_action = false;
  std::int32_t code = 70;
  std::string cause;
};

}  // namespace millrace::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ToRank)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ToCoordinator)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::Execute)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::ActionDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::TokenArrived)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::SlotWritable)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::LoadBatches)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::BatchReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::WorkDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(millrace::actors::WorkFailed)
