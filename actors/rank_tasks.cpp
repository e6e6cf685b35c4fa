#include "actors/rank_tasks.hpp"

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
      return runtime::square_sums(rank_.stream(), store, squares_);
    case RankWork::optimizer:
      return runtime::apply_adamw(rank_.stream(), task.scalars, store);
    case RankWork::snapshot:
      return take_snapshot();
  }
}

/// Hands the sums that another rank has too to that rank: of a tied table the own use, of a replica everything.
void RankTasks::send_sums() {
  auto& link = rank_.links->link(exchange_.channel());
  for_each_exchanged_sum(rank_, link.slot(exchange_.sequence()),
                         [this](const auto& sum, const auto& part) { kernels::convert(rank_.stream(), sum, part); });
  link.send(exchange_.sequence(), exchange_.bytes(), runtime::steady_now());
}

/// The other side's: use 0 + use 1 of a tied table, the first half of the microbatches + the second. Both ranks get the same bits since
/// addition commutes. Uses that share the rank are added after that, as where there is one rank.
void RankTasks::add_sums() {
  const auto& arrival = exchange_.arrival();
  for_each_exchanged_sum(rank_, arrival.data,
                         [this](const auto& sum, const auto& part) { kernels::accumulate(rank_.stream(), part, sum); });
  rank_.compute().store().add_local_uses(rank_.stream());
  rank_.links->link(arrival.channel).release(arrival.sequence);
}

void RankTasks::take_snapshot() {
  const auto& store = rank_.compute().store();
  store.take_snapshot();
  copy_hashes_.clear();
  for (const auto& tensor : rank_.compute().parameters().tensors())
    if (rank_.plan().held_twice(tensor.name)) copy_hashes_.push_back({tensor.name, runtime::hash_of(store.snapshot_master(tensor)).hex()});
}

}  // namespace millrace::actors
