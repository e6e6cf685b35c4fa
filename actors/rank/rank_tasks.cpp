#include "actors/rank/rank_tasks.hpp"

#include "kernels/elementwise.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {

void RankTasks::perform(const RankTask& task) {
  const auto& store = rank_.compute().store();
  switch (task.work) {
    case RankWork::clear:
      return store.zero_accumulators(rank_.stream());
    case RankWork::sums:
      store.add_accumulator_sets(rank_.stream());
      if (!exchange_.there()) store.add_local_uses(rank_.stream());
      return;
    case RankWork::sums_sent:
      return send_sums();
    case RankWork::sums_added:
      return add_sums();
    case RankWork::squares:
      return runtime::compute_square_sums(rank_.stream(), store);
    case RankWork::optimizer:
      store.after_snapshot(rank_.stream());
      return runtime::apply_adamw(rank_.stream(), task.scalars, store);
    case RankWork::snapshot:
      return store.take_snapshot(rank_.stream());
  }
}

void RankTasks::finish(const RankTask& task) {
  switch (task.work) {
    case RankWork::sums_sent:
      return rank_.links->link(exchange_.channel()).send(exchange_.sequence(), exchange_.bytes(), runtime::steady_now());
    case RankWork::sums_added:
      return rank_.links->link(exchange_.arrival().channel).release(exchange_.arrival().sequence);
    case RankWork::squares:
      return runtime::read_square_sums(rank_.compute().store(), squares_);
    case RankWork::snapshot:
      return hash_copies();
    default:
      return;
  }
}

kernels::Lane RankTasks::lane(const RankTask& task) const {
  if (task.work == RankWork::snapshot) return kernels::Lane::background;
  return task.work == RankWork::sums_sent ? kernels::Lane::copy_out : kernels::Lane::compute;
}

/// Hands the sums that another rank has too to that rank: of a tied table the own use, of a replica everything.
void RankTasks::send_sums() {
  std::byte* slot = rank_.links->link(exchange_.channel()).slot(exchange_.sequence());
  for_each_exchanged_sum(rank_, rank_.program_place(exchange_.channel(), slot, false),
                         [this](const auto& sum, const auto& part) { kernels::convert(rank_.stream(), sum, part); });
  if (rank_.stream().on_cuda()) rank_.stream().queue().order(kernels::Lane::copy_out, kernels::Lane::compute);
  rank_.copy_out(rank_.outgoing(exchange_.channel(), slot, exchange_.bytes(), exchange_.sequence()));
}

/// The other side's: use 0 + use 1 of a tied table, the first half of the microbatches + the second. Both ranks get the same bits since
/// addition commutes. Uses that share the rank are added after that, as where there is one rank.
void RankTasks::add_sums() {
  const auto& arrival = exchange_.arrival();
  rank_.copy_in(rank_.incoming(arrival.channel, arrival.data, exchange_.bytes()));
  for_each_exchanged_sum(rank_, rank_.program_place(arrival.channel, arrival.data, true),
                         [this](const auto& sum, const auto& part) { kernels::accumulate(rank_.stream(), part, sum); });
  rank_.compute().store().add_local_uses(rank_.stream());
}

/// Of the weights that another rank has too.
void RankTasks::hash_copies() {
  const auto& store = rank_.compute().store();
  copy_hashes_.clear();
  for (const auto& tensor : rank_.compute().parameters().tensors())
    if (rank_.plan().held_twice(tensor.name)) copy_hashes_.push_back({tensor.name, runtime::hash_of(store.snapshot_master(tensor)).hex()});
}

}  // namespace millrace::actors
