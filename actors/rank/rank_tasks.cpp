#include "actors/rank/rank_tasks.hpp"

#include "kernels/elementwise.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {

RankTasks::RankTasks(Rank& rank, const SumExchangeState& exchange)
    : rank_(rank), exchange_(exchange), exchanged_sums_(exchanged_sums(rank)) {}

/// Calls body(shard) for the shard of each of the rank's stages, in their order.
template <class Body>
void RankTasks::for_each_shard(const Body& body) {
  for (const runtime::Stage* stage : rank_.compute().stages()) body(stage->shard());
}

void RankTasks::perform(const RankTask& task) {
  switch (task.work) {
    case RankTaskKind::clear:
      return for_each_shard([this](const auto& shard) { shard.zero_accumulators(rank_.context()); });
    case RankTaskKind::sums:
      for_each_shard([this](const auto& shard) { shard.add_accumulator_sets(rank_.context()); });
      if (!exchange_.there()) add_local_uses();
      return;
    case RankTaskKind::sums_sent:
      return send_sums();
    case RankTaskKind::sums_added:
      return add_sums();
    case RankTaskKind::squares:
      return for_each_shard([this](const auto& shard) { runtime::compute_square_sums(rank_.context(), shard); });
    case RankTaskKind::optimizer:
      return for_each_shard([this, &task](const auto& shard) {
        shard.after_snapshot(rank_.context());
        runtime::apply_optimizer(rank_.context(), task.scalars, shard);
        runtime::update_biases(rank_.context(), bias_update_, shard);
        runtime::apply_qk_clip(rank_.context(), qk_clip_, shard);
      });
    case RankTaskKind::snapshot:
      return for_each_shard([this](const auto& shard) { shard.take_snapshot(rank_.context()); });
  }
}

void RankTasks::finish(const RankTask& task) {
  switch (task.work) {
    case RankTaskKind::sums_sent:
      return rank_.link(exchange_.channel()).send(exchange_.sequence(), exchange_.bytes(), runtime::steady_now());
    case RankTaskKind::sums_added:
      return rank_.link(exchange_.arrival().channel).release(exchange_.arrival().sequence);
    case RankTaskKind::squares:
      squares_.clear();
      return for_each_shard([this](const auto& shard) { runtime::read_square_sums(shard, squares_); });
    case RankTaskKind::snapshot:
      return hash_copies();
    default:
      return;
  }
}

kernels::StreamKind RankTasks::lane(const RankTask& task) const {
  if (task.work == RankTaskKind::snapshot) return kernels::StreamKind::background;
  return task.work == RankTaskKind::sums_sent ? kernels::StreamKind::copy_out : kernels::StreamKind::compute;
}

/// Sends the sums that another rank also has to that rank: for a tied table those of this rank's use, for a replica all of them.
void RankTasks::send_sums() {
  std::byte* slot = rank_.link(exchange_.channel()).slot(exchange_.sequence());
  for_each_part(exchanged_sums_, rank_.program_place(exchange_.channel(), slot, false),
                [this](const auto& sum, const auto& part) { kernels::convert(rank_.context(), sum, part); });
  rank_.context().device_context().wait(kernels::StreamKind::copy_out, kernels::StreamKind::compute);
  rank_.copy_out(rank_.outgoing(exchange_.channel(), slot, exchange_.bytes(), exchange_.sequence()));
}

/// Adds the other side's sums: use 0 + use 1 of a tied table, or the first half of the microbatches + the second. Both ranks get
/// the same bits, since addition commutes. Uses that share a rank are added afterwards, as with a single rank.
void RankTasks::add_sums() {
  const auto& arrival = exchange_.arrival();
  rank_.copy_in(rank_.incoming(arrival.channel, arrival.data, exchange_.bytes()));
  for_each_part(exchanged_sums_, rank_.program_place(arrival.channel, arrival.data, true),
                [this](const auto& sum, const auto& part) { kernels::accumulate(rank_.context(), part, sum); });
  add_local_uses();
}

void RankTasks::add_local_uses() {
  for_each_shard([this](const auto& shard) { shard.add_local_uses(rank_.context()); });
}

/// Hashes the weights that another rank also has.
void RankTasks::hash_copies() {
  copy_hashes_.clear();
  for_each_shard([this](const auto& shard) {
    for (const auto& tensor : shard.tensors())
      if (rank_.plan().held_twice(tensor.name))
        copy_hashes_.push_back({tensor.name, runtime::hash_of(shard.snapshot_master(tensor)).hex()});
  });
}

}  // namespace millrace::actors
