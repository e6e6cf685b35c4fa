#include "actors/setup/sum_messages.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "kernels/base/buffer.hpp"
#include "layers/models/model.hpp"
#include "runtime/schedule/sum_tree.hpp"

namespace millrace::actors {
namespace {

using runtime::Placement;
using runtime::RankId;
using runtime::StageId;

SumPart part_of(const layers::ParameterSpec& spec) {
  return {.tensor = spec.name,
          .order = spec.order,
          .use = spec.use,
          .bytes = kernels::align_up(static_cast<std::size_t>(spec.shape.elements()) * sizeof(float)),
          .shared = {},
          .elements = {0, spec.shape.elements()}};
}

void sort(std::vector<SumPart>& parts) {
  std::ranges::sort(parts, {}, [](const SumPart& part) { return std::pair(part.order, part.use); });
}

/// The use of a tensor, and the stage of a replica that has it.
struct PlacedUse {
  SumPart part;
  int stage = 0;
  layers::ParameterSpec spec;
};

/// The weights that several stages use, by name, with their uses in order.
std::map<std::string, std::vector<PlacedUse>> shared_weights(const std::vector<layers::ParameterSpec>& parameters,
                                                             const layers::ModelConfig& model,
                                                             const std::vector<layers::StageLayout>& layout,
                                                             const runtime::LossWeights& losses) {
  std::map<std::string, std::vector<PlacedUse>> weights;
  for (std::size_t stage = 0; stage < layout.size(); ++stage) {
    if (!layout[stage].embedding && !layout[stage].head && layout[stage].modules == 0) continue;  // others have weights of their own
    for (const layers::ParameterSpec& spec : layers::parameters(parameters, model, layout[stage], losses))
      weights[spec.name].push_back({part_of(spec), static_cast<int>(stage), spec});
  }
  std::erase_if(weights, [](const auto& each) { return each.second.size() < 2; });
  for (auto& [name, uses] : weights) std::ranges::sort(uses, {}, [](const PlacedUse& each) { return each.part.use; });
  return weights;
}

/// Every rank sends its sums of every weight to all other replicas of the weight's stage; of a weight of experts, to those that have the
/// same experts.
void add_replicas(const SumMessagesInput& input, std::vector<SumMessage>& messages) {
  const Placement& placement = input.placement;
  const int replicas = placement.replicas(), groups = input.expert_groups;
  const auto own = [&](const SharedParts& shared) {
    return runtime::divide_sum_tree(shared.parts, shared.copies).sums.at(static_cast<std::size_t>(shared.copy));
  };
  std::map<std::pair<int, int>, std::vector<SumPart>> parts;  // by sender and receiver
  for (int stage = 0; stage < placement.model_stages(); ++stage) {
    const auto rank_of = [&](int replica) { return placement.rank_of(StageId(replica * placement.model_stages() + stage)).value; };
    for (const layers::ParameterSpec& spec : layers::parameters(
             input.parameters, input.model, input.layout.at(static_cast<std::size_t>(stage)), input.losses, {replicas / groups, 0})) {
      const bool experts = spec.experts.present();
      for (int from = 0; from < replicas; ++from) {
        SumPart part = part_of(spec);
        part.shared = experts ? SharedParts{input.expert_parts, groups, from % groups} : SharedParts{input.parts, replicas, from};
        part.sums = own(part.shared);
        for (int to = 0; to < replicas; ++to)
          if (to != from && (!experts || to / groups == from / groups)) parts[{rank_of(from), rank_of(to)}].push_back(part);
      }
    }
  }
  for (auto& [ranks, of_message] : parts) {
    sort(of_message);
    messages.push_back({SumRound::replicas, RankId(ranks.first), RankId(ranks.second), 0, std::move(of_message)});
  }
}

/// Every rank that uses a shared weight gets the sums of the uses that other ranks have. Where replicas have a use twice, it comes from the
/// replica in which the rank itself uses the weight: after the first round both have the same.
void add_uses(const SumMessagesInput& input, std::vector<SumMessage>& messages) {
  const Placement& placement = input.placement;
  std::map<std::pair<int, int>, std::vector<SumPart>> parts;  // by sender and receiver
  for (const auto& [name, uses] : shared_weights(input.parameters, input.model, input.layout, input.losses)) {
    const auto rank_of = [&](int replica, const PlacedUse& use) {
      return placement.rank_of(StageId(replica * placement.model_stages() + use.stage)).value;
    };
    std::map<int, int> holders;  // rank → the first replica in which it uses the weight
    for (int replica = 0; replica < placement.replicas(); ++replica)
      for (const PlacedUse& use : uses) holders.emplace(rank_of(replica, use), replica);
    for (const auto& [rank, replica] : holders) {
      for (const PlacedUse& use : uses) {
        bool has = false;
        for (int other = 0; other < placement.replicas(); ++other) has = has || rank_of(other, use) == rank;
        if (!has) parts[{rank_of(replica, use), rank}].push_back(use.part);
      }
    }
  }
  for (auto& [ranks, of_message] : parts) {
    sort(of_message);
    messages.push_back({SumRound::uses, RankId(ranks.first), RankId(ranks.second), 0, std::move(of_message)});
  }
}

/// The same where replicas divide the update: member m of each group has the sum of what it owns, of the uses that its group has, and gets
/// those of the others from member m of their groups.
void add_divided_uses(const SumMessagesInput& input, std::vector<SumMessage>& messages) {
  const Placement& placement = input.placement;
  std::map<std::pair<int, int>, std::vector<SumPart>> parts;  // by sender and receiver
  for (const auto& [name, uses] : shared_weights(input.parameters, input.model, input.layout, input.losses)) {
    std::vector<std::vector<int>> groups;  // by use: the ranks that have it, ascending
    for (const PlacedUse& use : uses) {
      std::vector<int>& ranks = groups.emplace_back();
      for (int replica = 0; replica < placement.replicas(); ++replica)
        ranks.push_back(placement.rank_of(StageId(replica * placement.model_stages() + use.stage)).value);
      std::ranges::sort(ranks);
    }
    const auto owned = input.owned(uses.front().spec);
    for (std::size_t member = 0; member < owned.size(); ++member) {
      if (owned[member].empty()) continue;
      std::set<int> holders;
      for (const auto& group : groups) holders.insert(group[member]);
      for (const int to : holders) {
        for (std::size_t use = 0; use < uses.size(); ++use) {
          if (std::ranges::find(groups[use], to) != groups[use].end()) continue;
          SumPart part = uses[use].part;
          part.elements = owned[member];
          part.bytes = kernels::align_up(static_cast<std::size_t>(part.elements.count) * sizeof(float));
          parts[{groups[use][member], to}].push_back(std::move(part));
        }
      }
    }
  }
  for (auto& [ranks, of_message] : parts) {
    sort(of_message);
    messages.push_back({SumRound::uses, RankId(ranks.first), RankId(ranks.second), 0, std::move(of_message)});
  }
}

}  // namespace

std::vector<std::string> tied_weights(const std::vector<layers::ParameterSpec>& parameters, const layers::ModelConfig& model,
                                      const std::vector<layers::StageLayout>& layout, const runtime::LossWeights& losses) {
  std::vector<std::string> names;
  for (const auto& [name, uses] : shared_weights(parameters, model, layout, losses)) names.push_back(name);
  return names;
}

std::size_t SumMessage::bytes() const {
  std::size_t sum = 0;
  for (const SumPart& part : parts) sum += part.bytes * part.sums.size();
  return sum;
}

std::vector<SumMessage> sum_messages(const SumMessagesInput& input) {
  std::vector<SumMessage> messages;
  if (input.owned) {
    add_divided_uses(input, messages);
  } else {
    if (input.placement.replicas() > 1) add_replicas(input, messages);
    add_uses(input, messages);
  }
  int channel = input.first_channel;
  for (SumMessage& message : messages) message.channel = channel++;
  return messages;
}

}  // namespace millrace::actors
