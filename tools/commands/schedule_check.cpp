// millrace schedule check: whether a schedule is well formed and cannot deadlock, whatever the timing, for every model of a
// transport.

#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/schedule/ledger.hpp"
#include "runtime/schedule/simulator/transfer_order.hpp"
#include "runtime/schedule/table.hpp"
#include "runtime/schedule/validate.hpp"
#include "tools/commands/schedule_request.hpp"

namespace millrace::tools {
namespace {

constexpr const char* schedule_check_component = "millrace schedule";

using runtime::TransferOrder;
constexpr std::array transports{TransferOrder::free, TransferOrder::edge_fifo, TransferOrder::direction_fifo, TransferOrder::rank_fifo,
                                TransferOrder::rendezvous};

struct Bounds {
  int slots = 0, outbox = 0;  // 0: unbounded
};

runtime::TransferModel transfer_model(TransferOrder order, const Bounds& bounds, const runtime::Placement& placement) {
  runtime::TransferModel model;
  model.order = order;
  model.outbox = bounds.outbox;
  if (bounds.slots > 0) model.slots.emplace(runtime::edges_of(placement).size(), bounds.slots);
  return model;
}

void print_verdict(bool live, const std::string& name, const std::string& report) {
  fmt::print("  {}  {}\n", live ? "live" : "DEAD", name);
  for (std::size_t begin = 0; begin < report.size();) {
    const auto end = std::min(report.find('\n', begin), report.size());
    fmt::print("        {}\n", report.substr(begin, end - begin));
    begin = end + 1;
  }
}

// The model of this engine: receives are implicit, sends never wait, every edge has a ring of the depth in the ledger.
bool prove_engine(const runtime::Schedule& schedule) {
  const auto depths = runtime::make_ledger(schedule).depths;
  const auto liveness = runtime::replay_untimed(schedule, depths);
  const auto [least, most] = std::minmax_element(depths.begin(), depths.end());
  const std::string rings = depths.empty() ? "no edges" : fmt::format("rings of {} to {} slots", *least, *most);
  print_verdict(liveness.live, fmt::format("this engine   receives implicit, {}", rings), liveness.report);
  return liveness.live;
}

// The slots that every edge needs if receives are in the list; more slots never cause a deadlock.
int slots_needed(const runtime::Schedule& schedule, const runtime::FullTable& table) {
  const auto live = [&](int slots) {
    return runtime::replay_transfers(schedule.placement, table, transfer_model(TransferOrder::edge_fifo, {slots, 0}, schedule.placement))
        .live;
  };
  int low = 1, high = schedule.microbatches;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (live(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

bool prove_transports(const runtime::Schedule& schedule, const runtime::FullTable& table, const Bounds& bounds) {
  bool all = true;
  for (const TransferOrder order : transports) {
    const auto liveness = runtime::replay_transfers(schedule.placement, table, transfer_model(order, bounds, schedule.placement));
    std::string name = runtime::to_string(order);
    if (order == TransferOrder::edge_fifo && liveness.live && bounds.slots == 0 && bounds.outbox == 0) {
      const int slots = slots_needed(schedule, table);
      name += fmt::format("     with {} per edge or more", counted(slots, "slot"));
    }
    print_verdict(liveness.live, name, liveness.report);
    all = all && liveness.live;
  }
  return all;
}

bool prove(const runtime::Schedule& schedule, const std::optional<runtime::FullTable>& own, const Bounds& bounds) {
  fmt::print("{}\n  well formed\n", describe(schedule));
  const bool engine = prove_engine(schedule);
  fmt::print("  receives in the lists, {}:\n", own ? "sends and receives as the file has them" : "sends right after their actions");
  const bool all = prove_transports(schedule, own ? *own : runtime::full_table(schedule), bounds) && engine;
  fmt::print("{}: {}\n", schedule.name, all ? "proved" : "rejected");
  return all;
}

bool check_table(const std::string& path, const Bounds& bounds) {
  const std::string text = read_table(path);
  runtime::check_cells(text, path);
  try {
    const auto schedule = runtime::parse_table(text, path);
    return prove(schedule, runtime::parse_full_table(text, schedule), bounds);
  } catch (const Error& error) {
    if (error.code() != ExitCode::config) throw;
    fmt::print("{}\n{}: rejected\n", error.what(), path);
    return false;
  }
}

int check(const Arguments& parsed) {
  MILLRACE_CHECK(!parsed.positional().empty(), ExitCode::usage, schedule_check_component,
                 "check without a name, expected built-in schedules or files");
  const Bounds bounds{static_cast<int>(parsed.integer("slots", 0, 0, 1 << 20)), static_cast<int>(parsed.integer("outbox", 0, 0, 1 << 20))};
  bool all = true, tables = true;
  for (const auto& word : parsed.positional()) tables = tables && !is_built_in(word);
  for (const auto& word : parsed.positional()) {
    if (tables) refuse_sizes(word, parsed);
    all = (is_built_in(word) ? prove(built_in(word, parsed), std::nullopt, bounds) : check_table(word, bounds)) && all;
  }
  return all ? 0 : static_cast<int>(ExitCode::difference);
}

}  // namespace

Command schedule_check_command() {
  auto options = schedule_options();
  options.push_back({.name = "slots", .value = "N", .help = "Messages that may wait at the end of an edge. Default: unbounded."});
  options.push_back(
      {.name = "outbox", .value = "N", .help = "Unfinished sends per edge before the next one blocks its list. Default: unbounded."});
  return {.name = "check",
          .words = "NAME|FILE …",
          .summary = "Prove schedules, or reject them and say what is wrong.",
          .notes = "The exit code is 0, or 1 if a fault was found, or 3 if a table cannot be read or a schedule cannot be made.",
          .options = options,
          .offer = offer_schedules | offer_files,
          .run = check};
}

}  // namespace millrace::tools
