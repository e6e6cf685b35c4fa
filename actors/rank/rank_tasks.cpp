#include "actors/rank/rank_tasks.hpp"

#include "kernels/elementwise.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {

namespace {

/// The name by which copies are compared: ranks that have the same experts of a weight have the same values.
std::string held_name(const runtime::StoredParameter& tensor) {
  const auto& [first, all] = tensor.experts;
  if (tensor.masters_divided) {
    const runtime::ElementRange elements = tensor.in_model(tensor.owned);
    return fmt::format("{} (elements {} to {})", tensor.name, elements.first, elements.end() - 1);
  }
  if (all == 0 || tensor.parts() == all) return tensor.name;
  return fmt::format("{} (experts {} to {})", tensor.name, first, first + tensor.parts() - 1);
}

}  // namespace

RankTasks::RankTasks(Rank& rank, const SumExchangeState& exchange) : rank_(rank), exchange_(exchange), exchanged_(rank, exchange) {}

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
        const bool gathers = rank_.adds_with_replicas() && !rank_.plan().divides_masters();
        if (!gathers || task.scalars.skip) complete_update(shard);
      });
    case RankTaskKind::averages:
      return for_each_shard([this](const auto& shard) {
        shard.after_snapshot(rank_.context());
        shard.exchange_average(rank_.context());
      });
    case RankTaskKind::snapshot:
      return for_each_shard([this](const auto& shard) { shard.take_snapshot(rank_.context()); });
    case RankTaskKind::list_sum:
      complete_sum(task.sum);
      return rank_.replicas()->advance(rank_.context());
    case RankTaskKind::transfers:
      rank_.replicas()->heard();
      return rank_.replicas()->advance(rank_.context());
    case RankTaskKind::uses:
      return add_local_uses();
  }
}

void RankTasks::complete_update(const runtime::StageShard& shard) {
  runtime::update_biases(rank_.context(), bias_update_, shard);
  runtime::apply_qk_clip(rank_.context(), qk_clip_, shard);
}

void RankTasks::finish(const RankTask& task) {
  switch (task.work) {
    case RankTaskKind::sums_sent:
      for (const SumMessage* message : exchange_.round().outgoing)
        rank_.link(message->channel).send(exchange_.sequence(), message->bytes(), runtime::steady_now());
      return;
    case RankTaskKind::sums_added:
      for (const auto& each : exchange_.round().incoming) rank_.link(each.arrival->channel).release(each.arrival->sequence);
      return;
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

/// Writes the messages of the exchange's round with the sums that other ranks need.
void RankTasks::send_sums() {
  const auto& outgoing = exchange_.round().outgoing;
  const auto slot = [this](int channel) { return rank_.link(channel).slot(exchange_.sequence()); };
  for (std::size_t index = 0; index < outgoing.size(); ++index) {
    const int channel = outgoing[index]->channel;
    exchanged_.write(rank_.context(), index, rank_.program_place(channel, slot(channel), false));
  }
  rank_.context().device_context().wait(kernels::StreamKind::copy_out, kernels::StreamKind::compute);
  for (const SumMessage* message : outgoing)
    rank_.copy_out(rank_.outgoing(message->channel, slot(message->channel), message->bytes(), exchange_.sequence()));
}

/// Adds the sums of the other ranks. Uses that share a rank are added afterwards, as with a single rank, unless the exchange has added them
/// among those of other ranks.
void RankTasks::add_sums() {
  places_.clear();
  for (const auto& each : exchange_.round().incoming) {
    const auto& arrival = *each.arrival;
    rank_.copy_in(rank_.incoming(arrival.channel, arrival.data, each.message->bytes()));
    places_.push_back(rank_.program_place(arrival.channel, arrival.data, true));
  }
  exchanged_.add(rank_.context(), places_);
  if (exchange_.in_last_round()) add_local_uses();
}

void RankTasks::add_local_uses() {
  for_each_shard([this](const auto& shard) {
    for (const auto& tensor : shard.tensors())
      if (!exchanged_.completes(tensor)) shard.add_local_uses(rank_.context(), tensor);
  });
}

/// Adds the rank's own sets of what replicas then add together.
void RankTasks::complete_sum(std::size_t sum) {
  const ListedSum& listed = rank_.replicas()->listed(sum);
  if (listed.last) rank_.compute().stage(listed.stage).shard().add_accumulator_sets(rank_.context());
  rank_.replicas()->sum_complete(sum);
}

/// Hashes the weights that another rank also has, whose parameters the snapshot has. Of a divided one it has only a part: the others gave
/// the rest, which is compared as programs read it; nothing changes it before the next update.
void RankTasks::hash_copies() {
  copy_hashes_.clear();
  for_each_shard([this](const auto& shard) {
    for (const auto& tensor : shard.tensors())
      if (rank_.plan().held_by_several(tensor.name) && !tensor.held().empty()) {
        const kernels::Tensor values = shard.master(tensor);
        const auto bytes = tensor.divided && !tensor.masters_divided ? std::span<const std::byte>(values.data, values.bytes())
                                                                     : shard.snapshot_master(tensor);
        copy_hashes_.push_back({held_name(tensor), runtime::hash_of(bytes).hex()});
      }
  });
}

}  // namespace millrace::actors
