// millrace schedule: schedules as text, pictures, tables, traces and numbers.

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/schedule/generators/catalogue.hpp"
#include "runtime/schedule/simulator/render.hpp"
#include "runtime/schedule/simulator/report.hpp"
#include "runtime/schedule/simulator/svg_picture.hpp"
#include "runtime/schedule/simulator/trace_events.hpp"
#include "runtime/schedule/table.hpp"
#include "tools/commands/schedule_request.hpp"

namespace millrace::tools {
namespace {

constexpr const char* who = "millrace schedule";
constexpr std::size_t widest_picture = 2000;      // columns of text
constexpr std::size_t most_ledger = 200'000'000;  // actions x ranks: seconds

std::vector<std::string> joined(std::vector<std::string> options, const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

int list(const std::vector<std::string>& arguments) {
  MILLRACE_CHECK(arguments.empty(), ExitCode::usage, who, "list {}, expected no arguments", arguments.front());
  for (const auto& facts : runtime::schedule_catalogue()) {
    fmt::print("{:<15} {}\n{:<15} bubble {} | holds {} microbatches | {} messages a microbatch\n{:<15} takes {}\n", facts.name, facts.use,
               "", facts.bubble, facts.peak, facts.messages, "", facts.wants);
  }
  fmt::print(
      "\nP ranks, V chunks (stages) a rank, M microbatches, N those of a group (--group); F, I, W, B = I + W: times of a whole rank,\n"
      "F&B of an overlapped pair. Bubbles are of the whole step. Pictures: millrace schedule show NAME --ranks 4 --microbatches 8\n");
  return 0;
}

// One word: the schedule.
std::string subject(const Arguments& parsed, const char* what) {
  MILLRACE_CHECK(parsed.positional().size() == 1, ExitCode::usage, who,
                 "{} with {} names, expected one: a built-in schedule ({}) or a file", what, parsed.positional().size(),
                 fmt::join(runtime::schedule_names(), ", "));
  return parsed.positional().front();
}

// -- show -----------------------------------------------------------------------------------------------------------------

std::string text_picture(const runtime::Schedule& schedule, const runtime::Costs& costs, const runtime::Simulation& simulation) {
  double unit = simulation.makespan;
  for (const auto& list : schedule.ranks)
    for (const auto& action : list) unit = std::min(unit, costs.stages[action.stage.index()].of(action.kind));
  const int columns = static_cast<int>(fmt::formatted_size("{}", std::max(0, schedule.microbatches - 1))) + 2 +
                      (schedule.placement.chunks() > 2 ? static_cast<int>(fmt::formatted_size("{}", schedule.placement.chunks() - 1)) : 0);
  const double width = simulation.makespan / unit * columns;
  if (width > widest_picture) return fmt::format("a picture of {:.0f} columns is left out; --svg FILE draws one\n", width);
  return runtime::render(runtime::timeline_of(schedule, simulation), schedule.placement, unit, columns);
}

std::string legend(const runtime::Schedule& schedule) {
  const int chunks = schedule.placement.chunks();
  std::string text = "F forward, B backward, or I and W, gradients of input and weights; = goes on, . idle";
  if (chunks == 2) text += "; small letters: the rank's second stage";
  if (chunks > 2) text += "; in front: which of the rank's stages";
  for (const auto& list : schedule.ranks)
    for (const auto& action : list)
      if (action.overlaps_next) return text + "; & an overlapped pair";
  return text;
}

void write(const Arguments& parsed, const std::string& option, const std::string& text) {
  const std::string path = parsed.text(option, "");
  runtime::write_text_file(path, text);
  fmt::print("{}: {} bytes\n", path, text.size());
}

bool write_files(const Arguments& parsed, const runtime::Schedule& schedule, const runtime::Costs& costs,
                 const runtime::Simulation& simulation) {
  bool wrote = false;
  const auto asked = [&](const char* option) { return parsed.flag(option) && (wrote = true); };
  if (asked("svg")) write(parsed, "svg", runtime::svg_picture(schedule, simulation, describe_costs(parsed)));
  if (asked("csv")) write(parsed, "csv", runtime::print_table(schedule));
  if (asked("full-csv")) write(parsed, "full-csv", runtime::print_full_table(schedule));
  if (asked("trace")) write(parsed, "trace", runtime::trace_events(schedule, costs, simulation));
  return wrote;
}

int show(const std::vector<std::string>& arguments) {
  const Arguments parsed(arguments, joined(joined({"svg", "csv", "full-csv", "trace"}, schedule_options), price_options), {});
  const auto schedule = schedule_of(subject(parsed, "show"), parsed);
  const auto costs = costs_of(schedule, parsed);
  const auto simulation = runtime::simulate(schedule, costs);
  if (write_files(parsed, schedule, costs, simulation)) return 0;
  fmt::print("{}\n{}\n\n{}{}\n\n", describe(schedule), describe_costs(parsed), text_picture(schedule, costs, simulation), legend(schedule));
  fmt::print("{}\n{}", runtime::print_measures(schedule, simulation), runtime::print_ranks(schedule, simulation));
  if (simulation.actions() * schedule.ranks.size() <= most_ledger && !schedule.forward_only())
    fmt::print("\n{}", runtime::print_slots(schedule, runtime::make_ledger(schedule)));
  return 0;
}

// -- simulate -------------------------------------------------------------------------------------------------------------

int simulate(const std::vector<std::string>& arguments) {
  const Arguments parsed(arguments, joined(schedule_options, price_options), {"json"});
  const auto schedule = schedule_of(subject(parsed, "simulate"), parsed);
  const auto costs = costs_of(schedule, parsed);
  const auto simulation = runtime::simulate(schedule, costs);
  const auto lost = runtime::lost_time(schedule, costs);
  if (parsed.flag("json")) {
    fmt::print("{}", runtime::to_json(schedule, costs, simulation, lost));
    return 0;
  }
  fmt::print("{}\n{}\n\n{}\n", describe(schedule), describe_costs(parsed), runtime::print_measures(schedule, simulation));
  fmt::print("where the step's time goes, and what each cause adds\n{}\n", runtime::to_string(lost, ""));
  fmt::print("what each rank does and waits for\n{}\n", runtime::print_waits(schedule, simulation));
  fmt::print("{}", runtime::print_critical_path(schedule, costs, simulation));
  return 0;
}

}  // namespace

const char* const schedule_help =
    R"(
  list                    names, bubble, memory, messages, when to take which
  show NAME|FILE          a picture in letters, idle time, peaks, slots; or, in place of it, files:
    --svg FILE            a picture to look at
    --csv FILE            the table of actions, as pipeline.plan and PyTorch's pipelining read it
    --full-csv FILE       the same with SEND and RECV
    --trace FILE          a trace for ui.perfetto.dev, one unit of the costs a millisecond
  check NAME|FILE …       proved, or rejected with what is wrong; ends with 0, with 1 where a fault was found, with 3 where a table
                          cannot be read or a schedule cannot be made
    --slots N             tokens that may wait at the end of an edge; unbounded
    --outbox N            unfinished sends of an edge before the next one blocks its list; unbounded
  simulate NAME|FILE      time, idle time by cause, waits of each rank, critical path, sensitivities
    --json                the same for programs

  a built-in schedule:    --ranks P --microbatches M [--chunks V] [--group N] [--warmup W] [--memory X]
                          W: 1f1b's forwards of rank 0 ahead of its first backward; N: of interleaved and interleaved-zb;
                          X: microbatches that a rank may hold, for auto, P if not said
  show and simulate:      --costs F,I,W[,c]       times of a whole rank for one microbatch, and from rank to rank; 1,1,1,0
                          --link-latency X        the same as c
                          --slow RANK:FACTOR      a slow rank; again, or with commas, for more
                          --jitter X [--seed N]   durations x exp(X normal - X^2/2)
                          --stall RANK:INDEX:X    that action of the rank's list, from 0, lasts X longer; --stall X: one that --seed draws
)";

int schedule(const std::vector<std::string>& arguments) {
  static const std::vector<std::string> known{"list", "show", "check", "simulate"};
  MILLRACE_CHECK(!arguments.empty(), ExitCode::usage, who, "nothing to do, expected one of {}; --help tells more", fmt::join(known, ", "));
  const std::string& what = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (what == "list") return list(rest);
  if (what == "show") return show(rest);
  if (what == "check") return schedule_check(rest);
  if (what == "simulate") return simulate(rest);
  fail(ExitCode::usage, who, "unknown word {}, expected one of {}{}", what, fmt::join(known, ", "), did_you_mean(what, known));
}

}  // namespace millrace::tools
