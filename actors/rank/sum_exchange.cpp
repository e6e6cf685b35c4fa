#include "actors/rank/sum_exchange.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"

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

/// The rank's own sums of a message's parts.
std::vector<kernels::Tensor> own_sums(const Rank& rank, const SumMessage& message) {
  std::vector<kernels::Tensor> sums;
  for (const SumPart& part : message.parts) {
    const Held weight = held(rank, part.tensor);
    sums.push_back(weight.shard->accumulator(*weight.tensor, part.use));
  }
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
    for (Incoming& each : round.incoming) each.arrival.reset();
}

bool SumExchangeState::complete() const {
  return sent_ && std::ranges::all_of(round().incoming, [](const Incoming& each) { return each.arrival.has_value(); });
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
      for (const auto& each : round.incoming) sums.incoming.push_back(own_sums(rank, *each.message));
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
      for (const auto& own : weight.tensor->uses) of_weight[own.use] = {.own = weight.shard->accumulator(*weight.tensor, own.use)};
      SharedWeight shared{.tensor = weight.tensor};
      for (const auto& [number, use] : of_weight) shared.uses.push_back(use);
      sums.weights.push_back(std::move(shared));
    }
  }
}

void ExchangedSums::write(const kernels::ExecutionContext& context, std::size_t index, std::byte* place) const {
  for_each_part(rounds_.at(exchange_.round_index()).outgoing.at(index), place,
                [&](const auto& sum, const auto& part) { kernels::convert(context, sum, part); });
}

void ExchangedSums::add(const kernels::ExecutionContext& context, const std::vector<std::byte*>& places) const {
  const RoundSums& sums = rounds_.at(exchange_.round_index());
  if (exchange_.round().round == SumRound::uses) return add_uses(context, sums, places);
  for (std::size_t message = 0; message < sums.incoming.size(); ++message)
    for_each_part(sums.incoming[message], places.at(message),
                  [&](const auto& sum, const auto& part) { kernels::accumulate(context, part, sum); });
}

/// ((use 0 + use 1) + use 2) + … : until the first use of this rank the sum grows in the message of use 0, from then on in the accumulator
/// of that use, which holds the gradient. (a + b has the bits of b + a.)
void ExchangedSums::add_uses(const kernels::ExecutionContext& context, const RoundSums& sums, const std::vector<std::byte*>& places) const {
  for (const SharedWeight& weight : sums.weights) {
    const auto own = std::ranges::find_if(weight.uses, &Use::is_own);
    const kernels::Tensor gradient = own->own;
    const auto tensor_of = [&](const Use& use) {
      kernels::Tensor tensor = gradient;
      tensor.data = use.is_own() ? use.own.data : places.at(use.message) + use.offset;
      return tensor;
    };
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
