#include "actors/rank/sum_exchange.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "runtime/schedule/sum_tree.hpp"

namespace millrace::actors {
namespace {

constexpr const char* exchange_component = "actors.sum_exchange";

/// A weight of the rank, with a shard that reaches the sums of all its uses here.
struct Held {
  const runtime::StageShard* shard = nullptr;
  const runtime::StoredParameter* tensor = nullptr;
};

Held held(const Rank& rank, const std::string& name) {
  for (const runtime::Stage* stage : rank.compute().stages())
    if (const runtime::StoredParameter* tensor = stage->shard().layout().find(name)) return {&stage->shard(), tensor};
  fail(ExitCode::internal, exchange_component, "rank {} does not hold {}", rank.id(), name);
}

/// The rank's own sum that is in this part of the gradient.
kernels::Tensor own_sum(const Rank& rank, const SumPart& part, int sum) {
  const Held weight = held(rank, part.tensor);
  const int set = runtime::GlobalOrder(part.shared.copies).set_of_part(sum);
  const runtime::ElementRange elements{part.elements.first - weight.tensor->kept().first, part.elements.count};
  return runtime::part_of(weight.shard->accumulator(*weight.tensor, part.use, set), elements);
}

/// The rank's own sums of a message's parts.
std::vector<kernels::Tensor> own_sums(const Rank& rank, const SumMessage& message) {
  std::vector<kernels::Tensor> sums;
  for (const SumPart& part : message.parts)
    for (const int sum : part.sums) sums.push_back(own_sum(rank, part, sum));
  return sums;
}

/// Calls body(sum, part) for each of the sums with its part of the message at `place`.
template <class Body>
void for_each_part(const std::vector<kernels::Tensor>& sums, std::byte* place, Body body) {
  for (const kernels::Tensor& sum : sums) {
    kernels::Tensor part = sum;
    part.data = place;
    body(sum, part);
    place += kernels::align_up(sum.bytes());
  }
}

bool trains(const Rank& rank) {
  return std::ranges::any_of(rank.compute().stages(), [](const runtime::Stage* stage) { return !stage->shard().accumulators().empty(); });
}

}  // namespace

// -- state --------------------------------------------------------------------------------------------------------------------------------

SumExchangeState::SumExchangeState(const PipelinePlan& plan, runtime::RankId rank) {
  for (const SumRound kind : {SumRound::replicas, SumRound::uses}) {
    Round round{.round = kind};
    for (const SumMessage& message : plan.sums) {
      if (message.round != kind) continue;
      if (message.from == rank) round.outgoing.push_back(&message);
      if (message.to == rank) round.incoming.push_back({&message});
    }
    if (!round.outgoing.empty() || !round.incoming.empty()) rounds_.push_back(std::move(round));
  }
}

void SumExchangeState::begin() {
  ++sequence_;
  round_ = 0;
  sent_ = report_waits_ = false;
  taken_ = 0;
  for (Round& round : rounds_)
    for (Incoming& each : round.incoming)
      if (!each.has(sequence_)) each.arrival.reset();
}

bool SumExchangeState::complete() const {
  return sent_ && std::ranges::all_of(round().incoming, [this](const Incoming& each) { return each.has(sequence_); });
}

bool SumExchangeState::sent() {
  sent_ = true;
  taken_ += static_cast<std::int64_t>(round().outgoing.size());
  return complete();
}

bool SumExchangeState::arrived(const cluster::Arrival& arrival) {
  for (std::size_t index = 0; index < rounds_.size(); ++index) {
    for (Incoming& each : rounds_[index].incoming) {
      if (each.message->channel != arrival.channel) continue;
      each.arrival = arrival;
      return index == round_ && complete();
    }
  }
  fail(ExitCode::internal, exchange_component, "gradient sums came over channel {}, which is none of this rank's", arrival.channel);
}

bool SumExchangeState::next_round() {
  if (in_last_round()) return false;
  ++round_;
  sent_ = false;
  return true;
}

bool SumExchangeState::may_report() {
  report_waits_ = taken_ > 0;
  return !report_waits_;
}

bool SumExchangeState::writable() {
  --taken_;
  return taken_ == 0 && std::exchange(report_waits_, false);
}

// -- sums ---------------------------------------------------------------------------------------------------------------------------------

ExchangedSums::ExchangedSums(const Rank& rank, const SumExchangeState& exchange) : exchange_(exchange) {
  rounds_.resize(exchange.rounds().size());
  if (!trains(rank)) return;
  for (std::size_t index = 0; index < rounds_.size(); ++index) {
    const SumExchangeState::Round& round = exchange.rounds()[index];
    RoundSums& sums = rounds_[index];
    for (const SumMessage* message : round.outgoing) sums.outgoing.push_back(own_sums(rank, *message));
    if (round.round == SumRound::replicas) {
      sums.replicated = replicated_sums(rank, round);
      continue;
    }
    std::map<std::string, std::map<int, Use>> uses;  // by weight and use
    for (std::size_t message = 0; message < round.incoming.size(); ++message) {
      std::size_t offset = 0;
      for (const SumPart& part : round.incoming[message].message->parts) {
        uses[part.tensor][part.use] = {.message = message, .offset = offset};
        offset += part.bytes;
      }
    }
    for (auto& [name, of_weight] : uses) {
      const Held weight = held(rank, name);
      for (const auto& own : weight.tensor->uses) of_weight[own.use] = {.own = weight.shard->owned_sum(*weight.tensor, own.use)};
      SharedWeight shared{.tensor = weight.tensor};
      for (const auto& [number, use] : of_weight) shared.uses.push_back(use);
      sums.weights.push_back(std::move(shared));
    }
  }
}

kernels::Tensor ExchangedSums::Use::tensor(const kernels::Tensor& like, const std::vector<std::byte*>& places) const {
  kernels::Tensor result = like;
  result.data = is_own() ? own.data : places.at(message) + offset;
  return result;
}

/// The additions across replicas, as this rank performs them. A sum of two numbers has the same bits in either order, so an addition writes
/// to the side that the rank's own first sum is in: the result ends in its accumulator, and the messages hold what is between.
std::vector<ExchangedSums::ReplicatedSum> ExchangedSums::replicated_sums(const Rank& rank, const SumExchangeState::Round& round) {
  struct Gathered {
    SumPart own;                // as this rank sends it
    std::map<int, Use> places;  // by the part that holds the sum
  };
  std::map<std::pair<std::string, int>, Gathered> weights;  // by tensor and use
  for (const SumMessage* message : round.outgoing)
    for (const SumPart& part : message->parts) weights[{part.tensor, part.use}].own = part;
  for (auto& [name, weight] : weights)
    for (const int sum : weight.own.sums) weight.places[sum] = {.own = own_sum(rank, weight.own, sum)};
  for (std::size_t message = 0; message < round.incoming.size(); ++message) {
    std::size_t offset = 0;
    for (const SumPart& part : round.incoming[message].message->parts)
      for (const int sum : part.sums) {
        weights.at({part.tensor, part.use}).places[sum] = {.message = message, .offset = offset};
        offset += part.bytes;
      }
  }
  std::vector<ReplicatedSum> sums;
  for (auto& [name, weight] : weights) {
    const SharedParts& shared = weight.own.shared;
    ReplicatedSum sum{.gradient = own_sum(rank, weight.own, weight.own.sums.front())};
    for (std::size_t i = 1; i < weight.own.sums.size(); ++i) sum.others.push_back(own_sum(rank, weight.own, weight.own.sums[i]));
    int own = weight.own.sums.front();  // the part that it is in now
    const runtime::DividedSumTree tree = runtime::divide_sum_tree(shared.parts, shared.copies);
    for (const runtime::PartAddition& parts : tree.across) {
      Use& into = weight.places.at(parts.into);
      Use& from = weight.places.at(parts.from);
      if (parts.from == own) {
        std::swap(into, from);
        own = parts.into;
      }
      sum.additions.push_back({into, from});
    }
    sums.push_back(std::move(sum));
  }
  return sums;
}

void ExchangedSums::write(const kernels::ExecutionContext& context, std::size_t index, std::byte* place) const {
  for_each_part(rounds_.at(exchange_.round_index()).outgoing.at(index), place,
                [&](const auto& sum, const auto& part) { kernels::convert(context, sum, part); });
}

void ExchangedSums::add(const kernels::ExecutionContext& context, const std::vector<std::byte*>& places) const {
  const RoundSums& sums = rounds_.at(exchange_.round_index());
  exchange_.round().round == SumRound::uses ? add_uses(context, sums, places) : add_replicas(context, sums, places);
}

void ExchangedSums::add_replicas(const kernels::ExecutionContext& context, const RoundSums& sums,
                                 const std::vector<std::byte*>& places) const {
  for (const ReplicatedSum& sum : sums.replicated) {
    for (const auto& [into, from] : sum.additions)
      kernels::accumulate(context, from.tensor(sum.gradient, places), into.tensor(sum.gradient, places));
    for (const kernels::Tensor& other : sum.others) kernels::fill_zero(context, other);
  }
}

/// ((use 0 + use 1) + use 2) + … : until the first use of this rank the sum grows in the message of use 0, from then on in the accumulator
/// of that use, which holds the gradient. (a + b has the bits of b + a.)
void ExchangedSums::add_uses(const kernels::ExecutionContext& context, const RoundSums& sums, const std::vector<std::byte*>& places) const {
  for (const SharedWeight& weight : sums.weights) {
    const auto own = std::ranges::find_if(weight.uses, &Use::is_own);
    const kernels::Tensor gradient = own->own;
    const auto tensor_of = [&](const Use& use) { return use.tensor(gradient, places); };
    kernels::Tensor sum = tensor_of(weight.uses.front());
    for (std::size_t i = 1; i < weight.uses.size(); ++i) {
      const kernels::Tensor next = tensor_of(weight.uses[i]);
      if (next.data == gradient.data) {
        kernels::accumulate(context, sum, next);
        sum = next;
        continue;
      }
      kernels::accumulate(context, next, sum);
      if (weight.uses[i].is_own()) kernels::fill_zero(context, next);
    }
  }
}

bool ExchangedSums::completes(const runtime::StoredParameter& tensor) const {
  return std::ranges::any_of(rounds_, [&](const RoundSums& sums) {
    return std::ranges::find(sums.weights, &tensor, &SharedWeight::tensor) != sums.weights.end();
  });
}

}  // namespace millrace::actors
