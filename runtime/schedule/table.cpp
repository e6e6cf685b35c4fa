#include "runtime/schedule/table.hpp"

#include <algorithm>
#include <map>

#include "kernels/base/check.hpp"
#include "runtime/schedule/validate.hpp"

namespace millrace::runtime {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool moves_data(std::string_view cell) {
  return cell.find("SEND_") != std::string_view::npos || cell.find("RECV_") != std::string_view::npos;
}

std::vector<Action> parse_line(std::string_view line, const std::string& name, int number) {
  std::vector<Action> actions;
  for (int column = 1;; ++column) {
    const auto comma = line.find(',');
    const auto cell = trimmed(line.substr(0, comma));
    if (!cell.empty() && !moves_data(cell)) {
      try {
        actions.push_back(parse_action(cell));
      } catch (const Error& error) {
        fail(ExitCode::config, "runtime.schedule", "{}:{}: cell {}: {}", name, number, column, error.what());
      }
    }
    if (comma == std::string_view::npos) return actions;
    line.remove_prefix(comma + 1);
  }
}

/// The rank of each stage: the line that its forwards stand in.
std::vector<RankId> owners(const std::vector<std::vector<Action>>& ranks, const std::string& name) {
  std::map<int, RankId> owner;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& action : ranks[rank]) {
      const auto [place, fresh] = owner.try_emplace(action.stage.value, RankId(rank));
      MILLRACE_CHECK(fresh || place->second == RankId(rank), ExitCode::config, "runtime.schedule",
                     "{}: {} stands in the line of rank {}, stage {} in that of rank {} before", name, action, rank, action.stage,
                     place->second);
    }
  }
  std::vector<RankId> list;
  for (const auto& [stage, rank] : owner) {
    MILLRACE_CHECK(stage == static_cast<int>(list.size()), ExitCode::config, "runtime.schedule",
                   "{}: stage {} is missing, stage {} is there", name, list.size(), stage);
    list.push_back(rank);
  }
  return list;
}

}  // namespace

Schedule parse_table(std::string_view text, const std::string& name) {
  Schedule schedule;
  schedule.name = name;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    schedule.ranks.push_back(parse_line(line, name, number));
  }
  MILLRACE_CHECK(!schedule.ranks.empty(), ExitCode::config, "runtime.schedule", "{}: no line of a rank", name);
  schedule.placement = Placement::by_hand(static_cast<int>(schedule.ranks.size()), owners(schedule.ranks, name));
  for (const auto& rank : schedule.ranks)
    for (const auto& action : rank) schedule.microbatches = std::max(schedule.microbatches, action.microbatch.value + 1);
  check_schedule(schedule);
  return schedule;
}

std::string print_table(const Schedule& schedule) {
  std::string text;
  for (const auto& rank : schedule.ranks) {
    for (std::size_t i = 0; i < rank.size(); ++i) text += (i > 0 ? "," : "") + to_string(rank[i]);
    text += '\n';
  }
  return text;
}

}  // namespace millrace::runtime
