#include "runtime/profile/exchange_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace millrace::runtime {
namespace {

/// Adds up exchanges by what they are. Copies of a stage have the same exchanges.
class Sums {
 public:
  explicit Sums(const Exchanging& exchanging) : exchanging_(exchanging) {}

  /// The sum to which an exchange of an action on this stage belongs.
  ExchangeTime& of(StageId stage, ActionKind kind, int number) {
    ExchangeName name = exchange_name(exchanging_, stage, kind, number);
    const auto [place, is_new] = places_.try_emplace({name.name, kind}, sums_.size());
    if (is_new) sums_.push_back({name.layer, std::move(name.name), letter_of(kind)});
    return sums_[place->second];
  }

  [[nodiscard]] std::vector<ExchangeTime> result() && { return std::move(sums_); }

 private:
  const Exchanging& exchanging_;
  std::map<std::pair<std::string, ActionKind>, std::size_t> places_;
  std::vector<ExchangeTime> sums_;
};

/// The time at which the last member posted its exchange `index` of the step; that of the rank itself if the records of a member are not
/// complete.
std::int64_t posted_by_all(const StepView& step, const std::vector<RankId>& members, std::size_t rank, std::size_t index) {
  const auto& own = step.ranks[rank].exchanges;
  std::int64_t last = own[index].begin;
  for (const RankId member : members) {
    const auto& other = step.ranks[member.index()].exchanges;
    if (other.size() == own.size()) last = std::max(last, other[index].begin);
  }
  return std::min(last, own[index].end);
}

/// The exchange, by its number among those of the action, that the segment awaits for which the rank waited.
std::optional<int> awaited(const Exchanging& exchanging, const TraceRecord& wait) {
  if (wait.reason != WaitReason::exchange || wait.stage.index() >= exchanging.shapes.size()) return std::nullopt;
  const auto& segments = exchanging.shapes[wait.stage.index()].of(wait.action);
  if (wait.segment >= segments.size() || segments[wait.segment].awaits < 0) return std::nullopt;
  return segments[wait.segment].awaits;
}

}  // namespace

ExchangeName exchange_name(const Exchanging& exchanging, StageId stage, ActionKind kind, int number) {
  const auto place = static_cast<std::size_t>(number);
  if (stage.index() < exchanging.names.size() && place < exchanging.names[stage.index()].of(kind).size())
    return exchanging.names[stage.index()].of(kind)[place];
  return {-1, fmt::format("exchange {} of stage {}", number, stage)};
}

double ExchangeTime::hidden() const {
  return under_way > 0 ? std::max(0.0, 1 - static_cast<double>(exposed) / static_cast<double>(under_way)) : 0;
}

std::vector<ExchangeTime> exchange_times(const Exchanging& exchanging, std::span<const StepView> steps) {
  if (exchanging.shapes.empty()) return {};
  Sums sums(exchanging);
  for (const StepView& step : steps) {
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      const auto& exchanges = step.ranks[rank].exchanges;
      for (std::size_t index = 0; index < exchanges.size(); ++index) {
        const ExchangeRecord& record = exchanges[index];
        ExchangeTime& sum = sums.of(record.stage, record.action, record.number);
        ++sum.count;
        sum.bytes += record.bytes;
        sum.under_way += record.end - record.begin;
        sum.late += posted_by_all(step, exchanging.members.at(rank), rank, index) - record.begin;
      }
      for (const TraceRecord& wait : step.ranks[rank].waits)
        if (const auto number = awaited(exchanging, wait)) sums.of(wait.stage, wait.action, *number).exposed += wait.end - wait.begin;
    }
  }
  return std::move(sums).result();
}

}  // namespace millrace::runtime
