#include "runtime/schedule/table.hpp"

#include <algorithm>
#include <map>

#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/schedule/cell.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/lower.hpp"
#include "runtime/schedule/table_header.hpp"
#include "runtime/schedule/validate.hpp"

namespace millrace::runtime {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Calls `take` with the row of each rank, in order, and its place in the file; header lines go to `facts`.
template <class Take>
void for_each_row(std::string_view text, const std::string& name, TableFacts& facts, Take&& take) {
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = trimmed(text.substr(0, end));
    const std::string place = fmt::format("{}:{}", name, number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (line.front() == '#') {
      read_header_line(line, place, facts);
    } else {
      take(line, place);
    }
  }
}

// Applies `parse` to each cell of a row and concatenates the results.
template <class Entry>
std::vector<Entry> parse_row(std::string_view line, const std::string& place, std::vector<Entry> (*parse)(std::string_view)) {
  std::vector<Entry> entries;
  for (int column = 1;; ++column) {
    const auto comma = line.find(',');
    try {
      const auto cell = parse(trimmed(line.substr(0, comma)));
      entries.insert(entries.end(), cell.begin(), cell.end());
    } catch (const Error& error) {
      fail(ExitCode::config, schedule_component, "{}: cell {}: {}", place, column, without_component(error.what()));
    }
    if (comma == std::string_view::npos) return entries;
    line.remove_prefix(comma + 1);
  }
}

// The rank of each stage: the row that contains its actions.
std::vector<RankId> owners(const std::vector<std::vector<Action>>& ranks, const std::string& name) {
  std::map<int, RankId> owner;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& action : ranks[rank]) {
      const auto [place, fresh] = owner.try_emplace(action.stage.value, RankId(rank));
      MILLRACE_CHECK(fresh || place->second == RankId(rank), ExitCode::config, schedule_component,
                     "{}: {} is in the row of rank {}, but stage {} was in that of rank {} before", name, action, rank, action.stage,
                     place->second);
    }
  }
  std::vector<RankId> list;
  for (const auto& [stage, rank] : owner) {
    MILLRACE_CHECK(stage == static_cast<int>(list.size()), ExitCode::config, schedule_component,
                   "{}: stage {} is missing, but there is a stage {}", name, list.size(), stage);
    list.push_back(rank);
  }
  return list;
}

bool owned_as(const Placement& placement, const std::vector<RankId>& owner) {
  if (placement.stages() != static_cast<int>(owner.size())) return false;
  for (std::size_t stage = 0; stage < owner.size(); ++stage)
    if (placement.rank_of(StageId{stage}) != owner[stage]) return false;
  return true;
}

// Recognises a named placement, even if the table does not name it.
Placement recognised(int ranks, const std::vector<RankId>& owner) {
  const int chunks = std::max(1, static_cast<int>(owner.size()) / ranks);
  const Placement known[] = {Placement::single(ranks), Placement::v_shape(ranks), Placement::loop(ranks, chunks)};
  for (const Placement& placement : known)
    if (owned_as(placement, owner)) return placement;
  return Placement::by_hand(ranks, owner);
}

Placement choose_placement(const Schedule& schedule, const TableFacts& facts) {
  const std::vector<RankId> owner = owners(schedule.ranks, schedule.name);
  const int ranks = static_cast<int>(schedule.ranks.size());
  const auto named = placement_of(facts, ranks, static_cast<int>(owner.size()), schedule.name);
  if (!named) return facts.placement ? Placement::by_hand(ranks, owner) : recognised(ranks, owner);
  MILLRACE_CHECK(owned_as(*named, owner), ExitCode::config, schedule_component, "{}: #placement {}, but its stages are on ranks {}",
                 schedule.name, *facts.placement, fmt::join(owner, " "));
  return *named;
}

// Each microbatch has at least one cell of its own, so a larger number is a typing error (and would take memory accordingly).
int count_microbatches(const Schedule& schedule) {
  std::size_t cells = 0;
  Action newest;
  for (const auto& list : schedule.ranks) {
    cells += list.size();
    for (const Action& action : list)
      if (action.microbatch > newest.microbatch) newest = action;
  }
  MILLRACE_CHECK(newest.microbatch.index() < cells, ExitCode::config, schedule_component,
                 "{}: {} is of microbatch {}, but the table has only {} cells", schedule.name, newest, newest.microbatch, cells);
  return newest.microbatch.value + 1;
}

std::string print_rows(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const auto& cells : rows) text += fmt::format("{}\n", fmt::join(cells, ","));
  return text;
}

std::string print(const Schedule& schedule, const std::vector<std::vector<std::string>>& rows, TableHeader header) {
  return (header == TableHeader::with ? print_header(schedule) : "") + print_rows(rows);
}

}  // namespace

Schedule parse_table(std::string_view text, const std::string& name) {
  Schedule schedule;
  TableFacts facts;
  schedule.name = name;
  for_each_row(text, name, facts,
               [&](std::string_view line, const std::string& place) { schedule.ranks.push_back(parse_row(line, place, parse_cell)); });
  MILLRACE_CHECK(!schedule.ranks.empty(), ExitCode::config, schedule_component, "{}: no row of a rank", name);
  schedule.placement = choose_placement(schedule, facts);
  schedule.microbatches = count_microbatches(schedule);
  check_schedule(schedule);
  check_header(facts, schedule);
  return schedule;
}

void check_cells(std::string_view text, const std::string& name) {
  TableFacts facts;
  int rows = 0;
  for_each_row(text, name, facts, [&](std::string_view line, const std::string& place) {
    static_cast<void>(parse_row(line, place, parse_cell));
    ++rows;
  });
  MILLRACE_CHECK(rows > 0, ExitCode::config, schedule_component, "{}: no row of a rank", name);
}

std::optional<FullTable> parse_full_table(std::string_view text, const Schedule& schedule) {
  FullTable table;
  TableFacts facts;
  bool transfers = false;
  for_each_row(text, schedule.name, facts, [&](std::string_view line, const std::string& place) {
    table.push_back(parse_row(line, place, parse_transfer_cell));
    for (const TransferCell& cell : table.back()) {
      if (cell.kind == TransferCell::Kind::compute) continue;
      transfers = true;
      MILLRACE_CHECK(cell.microbatch.value < schedule.microbatches, ExitCode::config, schedule_component,
                     "{}: {} is of microbatch {}, the table has {}", place, to_string(cell), cell.microbatch, schedule.microbatches);
    }
  });
  return transfers ? std::optional(std::move(table)) : std::nullopt;
}

std::string print_table(const Schedule& schedule, TableHeader header) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& list : schedule.ranks) rows.push_back(print_cells(list));
  return print(schedule, rows, header);
}

std::string print_full_table(const Schedule& schedule, TableHeader header) { return print(schedule, lower(schedule), header); }

}  // namespace millrace::runtime
