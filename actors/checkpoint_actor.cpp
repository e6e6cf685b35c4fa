#include "actors/checkpoint_actor.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "actors/rank/snapshot.hpp"
#include "actors/save_messages.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::actors {
namespace {

void begin(runtime::CheckpointStore& store, const BeginCheckpoint& request) {
  try {
    request.folder->set_value(store.begin(static_cast<std::uint64_t>(request.step), request.bytes));
  } catch (...) {
    request.folder->set_exception(std::current_exception());
  }
}

}  // namespace

CheckpointActor::CheckpointActor(caf::actor_config& config, CheckpointActorSetup setup) : MessageActor(config), setup_(std::move(setup)) {}

caf::behavior CheckpointActor::make_behavior() {
  return {
      [this](const BeginCheckpoint& request) { begin(*setup_.store, request); },
      [this](const WriteShard& request) { return write(request); },
      [this](const CommitCheckpoint& request) { return commit(request); },
      [this](const DiscardCheckpoint& request) { return discard(request); },
  };
}

ShardWritten CheckpointActor::write(const WriteShard& request) {
  ShardWritten result{request.rank, request.step, "", ""};
  runtime::TraceRecord record;
  record.begin = runtime::steady_now();
  try {
    const auto found =
        std::find_if(setup_.ranks.begin(), setup_.ranks.end(), [&](const Rank* rank) { return rank->id().value == request.rank; });
    const Rank& rank = **found;
    std::vector<runtime::CheckpointTensor> tensors;
    for (const auto* stage : rank.compute().stages()) add_snapshot(stage->shard(), tensors);
    for (const auto& tensor : request.run)
      tensors.push_back({tensor.name,
                         runtime::FileDType::f64,
                         {static_cast<std::int64_t>(tensor.values.size())},
                         std::as_bytes(std::span(tensor.values)),
                         {}});
    result.report = runtime::write_shard(request.folder, request.rank, rank.plan().ranks(), tensors).text();
  } catch (const std::exception& error) {
    result.error = as_error(error, "actors.checkpoint").what();
  }
  record.end = runtime::steady_now();
  record.step = runtime::StepId(request.step - 1);  // the last step in the checkpoint
  record.kind = runtime::SpanKind::checkpoint_write;
  setup_.trace->add(record);
  return result;
}

CheckpointCommitted CheckpointActor::commit(const CommitCheckpoint& request) {
  CheckpointCommitted result{request.step, "", {}};
  try {
    setup_.metrics->sync();
    std::vector<runtime::ShardReport> reports;
    for (const auto& text : request.reports) reports.push_back(runtime::ShardReport::from_text(text));
    runtime::CheckpointMeta meta;
    meta.step = static_cast<std::uint64_t>(request.step);
    meta.consumed_samples = static_cast<std::uint64_t>(setup_.microbatches.before(request.step) * setup_.rows);
    meta.identity = setup_.identity;
    meta.notes = setup_.notes;
    result.warnings = setup_.store->commit(request.folder, reports, meta).warnings;
  } catch (const std::exception& error) {
    result.error = as_error(error, "actors.checkpoint").what();
    result.warnings = setup_.store->discard(request.folder);
  }
  return result;
}

CheckpointCommitted CheckpointActor::discard(const DiscardCheckpoint& request) {
  return {request.step, request.why, setup_.store->discard(request.folder)};
}

}  // namespace millrace::actors
