// millrace schedule: schedules as text, pictures, tables, traces and numbers.

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/schedule/generators/named_schedule.hpp"
#include "runtime/schedule/simulator/render.hpp"
#include "runtime/schedule/simulator/report.hpp"
#include "runtime/schedule/simulator/svg_picture.hpp"
#include "runtime/schedule/simulator/trace_events.hpp"
#include "runtime/schedule/table.hpp"
#include "tools/commands/atomic_folder.hpp"
#include "tools/commands/schedule_request.hpp"

namespace millrace::tools {
namespace {

constexpr const char* schedule_component = "millrace schedule";
constexpr std::size_t widest_picture = 2000;          // columns of text
constexpr std::size_t max_ledger_work = 200'000'000;  // actions x ranks: seconds

int list(const Arguments& arguments) {
  MILLRACE_CHECK(arguments.positional().empty(), ExitCode::usage, schedule_component, "list {}, expected no arguments",
                 arguments.positional().front());
  for (const runtime::NamedSchedule* named : runtime::named_schedules()) {
    fmt::print("{:<15} {}\n{:<15} bubble {} | holds {} microbatches | {} messages per microbatch\n{:<15} takes {}\n", named->name,
               named->use, "", named->bubble, named->peak, named->messages, "", named->requirements);
  }
  fmt::print(
      "\nP ranks, V chunks (stages) per rank, M microbatches, N of them in a group (--group); F, I, W, B = I + W: times of a whole rank,\n"
      "F&B of an overlapped pair. Bubbles are of the whole step. Pictures: millrace schedule show NAME --ranks 4 --microbatches 8\n");
  return 0;
}

// One word: the schedule.
std::string subject(const Arguments& parsed, const char* what) {
  MILLRACE_CHECK(parsed.positional().size() == 1, ExitCode::usage, schedule_component,
                 "{} with {}, expected one: a built-in schedule ({}) or a file", what, counted(parsed.positional().size(), "name"),
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
  std::string text = "F forward, B backward, or I and W, gradients of input and weights; = continues, . idle";
  if (chunks == 2) text += "; small letters: the rank's second stage";
  if (chunks > 2) text += "; number in front: which of the rank's stages";
  for (const auto& list : schedule.ranks)
    for (const auto& action : list)
      if (action.overlaps_next) return text + "; & an overlapped pair";
  return text;
}

void write(const Arguments& parsed, const std::string& option, const std::string& text) {
  const std::string path = parsed.text(option);
  runtime::write_text_file(path, text);
  fmt::print("{}: {} bytes\n", path, text.size());
}

/// Before anything is drawn.
void check_files(const Arguments& parsed) {
  bool any = false;
  for (const char* option : {"svg", "csv", "full-csv", "trace"}) {
    any = any || parsed.given(option);
    if (parsed.given(option)) want_overwrite(parsed.text(option), parsed.given("overwrite"), schedule_component);
  }
  MILLRACE_CHECK(any || !parsed.given("overwrite"), ExitCode::usage, schedule_component,
                 "--overwrite without a file to write, expected --svg, --csv, --full-csv or --trace");
}

bool write_files(const Arguments& parsed, const runtime::Schedule& schedule, const runtime::Costs& costs,
                 const runtime::Simulation& simulation) {
  bool wrote = false;
  const auto asked = [&](const char* option) { return parsed.given(option) && (wrote = true); };
  if (asked("svg")) write(parsed, "svg", runtime::svg_picture(schedule, simulation, describe_costs(parsed)));
  if (asked("csv")) write(parsed, "csv", runtime::print_table(schedule));
  if (asked("full-csv")) write(parsed, "full-csv", runtime::print_full_table(schedule));
  if (asked("trace")) write(parsed, "trace", runtime::trace_events(schedule, costs, simulation));
  return wrote;
}

int show(const Arguments& parsed) {
  check_files(parsed);
  const auto schedule = schedule_of(subject(parsed, "show"), parsed);
  const auto costs = costs_of(schedule, parsed);
  const auto simulation = runtime::simulate(schedule, costs);
  if (write_files(parsed, schedule, costs, simulation)) return 0;
  fmt::print("{}\n{}\n\n{}{}\n\n", describe(schedule), describe_costs(parsed), text_picture(schedule, costs, simulation), legend(schedule));
  fmt::print("{}\n{}", runtime::print_measures(schedule, simulation), runtime::print_ranks(schedule, simulation));
  if (simulation.actions() * schedule.ranks.size() <= max_ledger_work && !schedule.forward_only())
    fmt::print("\n{}", runtime::print_slots(schedule, runtime::make_ledger(schedule)));
  return 0;
}

// -- simulate -------------------------------------------------------------------------------------------------------------

int simulate(const Arguments& parsed) {
  const auto schedule = schedule_of(subject(parsed, "simulate"), parsed);
  const auto costs = costs_of(schedule, parsed);
  const auto simulation = runtime::simulate(schedule, costs);
  const auto lost = runtime::lost_time(schedule, costs);
  if (parsed.given("json")) {
    fmt::print("{}", runtime::to_json(schedule, costs, simulation, lost));
    return 0;
  }
  fmt::print("{}\n{}\n\n{}\n", describe(schedule), describe_costs(parsed), runtime::print_measures(schedule, simulation));
  fmt::print("where the step's time goes, and what each cause adds\n{}\n", runtime::to_string(lost, ""));
  fmt::print("what each rank does and waits for\n{}\n", runtime::print_waits(schedule, simulation));
  fmt::print("{}", runtime::print_critical_path(schedule, costs, simulation));
  return 0;
}

/// A command about one schedule and its costs.
Command priced(Command command) {
  for (auto& option : schedule_options()) command.options.push_back(std::move(option));
  for (auto& option : price_options("1,1,1,0")) command.options.push_back(std::move(option));
  return command;
}

}  // namespace

Command schedule_command() {
  const auto file = [](const char* name, const char* help) {
    return Option{.name = name, .value = "FILE", .help = help, .offer = offer_files};
  };
  constexpr std::uint8_t offer = offer_schedules | offer_files;
  return {.name = "schedule",
          .summary = "List pipeline schedules; draw, prove and price a built-in one or a table of your own.",
          .notes = "A built-in schedule takes --ranks P and --microbatches M; a table has its own.",
          .parts = {{.name = "list", .summary = "List schedules: names, bubble, memory, messages, when to use which.", .run = list},
                    priced({.name = "show",
                            .words = "NAME|FILE",
                            .summary = "Draw a schedule in letters, with idle time, peaks and slots; or write files.",
                            .options = {file("svg", "Write a picture."),
                                        file("csv", "Write the table of actions, as pipeline.plan and PyTorch's pipelining read it."),
                                        file("full-csv", "Write the same table with SEND and RECV."),
                                        file("trace", "Write a trace for ui.perfetto.dev, one unit of the costs as a millisecond."),
                                        {.name = "overwrite", .help = "Replace existing files."}},
                            .offer = offer,
                            .run = show}),
                    schedule_check_command(),
                    priced({.name = "simulate",
                            .words = "NAME|FILE",
                            .summary = "Print time, idle time by cause, waits per rank, critical path, sensitivities.",
                            .options = {{.name = "json", .help = "Print JSON."}},
                            .offer = offer,
                            .run = simulate})}};
}

}  // namespace millrace::tools
