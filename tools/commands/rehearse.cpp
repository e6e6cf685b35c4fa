// millrace rehearse: the runtime with timers in the place of compute, beside the simulator.

#include <algorithm>
#include <optional>

#include "actors/rehearsal.hpp"
#include "kernels/base/check.hpp"
#include "runtime/schedule/simulate.hpp"
#include "tools/commands/rehearsal_report.hpp"
#include "tools/commands/schedule_request.hpp"

namespace millrace::tools {
namespace {

constexpr const char* who = "millrace rehearse";

Arguments parse(std::vector<std::string> words) {
  std::vector<std::string> options{"bytes", "steps"};
  options.insert(options.end(), schedule_options.begin(), schedule_options.end());
  options.insert(options.end(), price_options.begin(), price_options.end());
  const auto prices = std::any_of(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("--costs"); });
  if (!prices) words.emplace_back("--costs=20,20,20");
  return {words, options, {"json"}};
}

actors::RehearsalSettings settings_of(const Arguments& parsed) {
  MILLRACE_CHECK(parsed.positional().size() == 1, ExitCode::usage, who, "{} names, wanted one: a built-in schedule ({}) or a file",
                 parsed.positional().size(), fmt::join(runtime::schedule_names(), ", "));
  actors::RehearsalSettings settings;
  settings.schedule = actors::as_run(schedule_of(parsed.positional().front(), parsed));
  MILLRACE_CHECK(!settings.schedule.forward_only(), ExitCode::usage, who, "{} has no backwards, wanted the table of a training step",
                 parsed.positional().front());
  settings.costs = costs_of(settings.schedule, parsed);
  settings.bytes = static_cast<std::size_t>(parsed.integer("bytes", 65536, 1, 1L << 30));
  settings.steps = static_cast<int>(parsed.integer("steps", 5, 1, 10'000));
  return settings;
}

/// Where the stalls are, drawn or said.
std::string describe_stalls(const actors::RehearsalSettings& settings) {
  std::string text;
  for (const auto& stall : settings.costs.noise.stalls)
    text += fmt::format(" | {:g} ms more of {} on rank {}", stall.duration,
                        settings.schedule.ranks[stall.rank.index()][static_cast<std::size_t>(stall.index)], stall.rank.value);
  return text;
}

}  // namespace

const char* const rehearse_help =
    R"(
  The real coordinator, actors, engines, compute workers and links run the schedule. In the place of an action's program its compute
  worker waits, asleep until shortly before the end, so that many ranks share few cores. Printed are the median step and the
  simulator's prediction with the same inputs, by cause and rank. A schedule is run as training runs it: one kind of backward, and the
  halves of overlapped pairs in order. Under mpirun the ranks are shared between the processes.

  a built-in schedule:    --ranks P --microbatches M [--chunks V] [--group N] [--warmup W] [--memory X], as of millrace schedule
  --costs F,I,W[,c]       milliseconds of a whole rank for one microbatch, and from rank to rank; 20,20,20,0
  --link-latency X        the same as c: a token is told of so much after it came
  --bytes B               of a token, 65536
  --slow RANK:FACTOR      a slow rank; again, or with commas, for more
  --jitter X [--seed N]   durations x exp(X normal - X^2/2)
  --stall RANK:INDEX:X    that action of the rank's list, from 0, lasts X longer; --stall X: one that --seed draws
  --steps N               measured steps, 5; one more goes before them
  --json                  the same for programs
)";

int rehearse(const std::vector<std::string>& arguments) {
  const Arguments parsed = parse(arguments);
  actors::Session session;
  actors::RehearsalSettings settings;
  session.prepare_together([&] { settings = settings_of(parsed); });
  const auto& schedule = settings.schedule;
  session.connect(schedule.placement.ranks(), {});
  std::optional<actors::Rehearsal> rehearsal;
  try {
    rehearsal = actors::rehearse(session, settings);
  } catch (const Error& error) {
    session.fail(error.code(), error.what());
  } catch (const std::exception& error) {
    session.fail(ExitCode::internal, error.what());
  }
  if (rehearsal) {
    const auto simulation = runtime::simulate(schedule, settings.costs);
    const auto comparison = compare(schedule, settings.costs, simulation, rehearsal->median());
    if (parsed.flag("json")) {
      fmt::print("{}", to_json(comparison, schedule, simulation, *rehearsal));
    } else {
      const int processes = session.launch().processes;
      fmt::print("{}\n{} ms{} | tokens of {} bytes | {} process{} | median of {} steps\n\n{}", describe(schedule), describe_costs(parsed),
                 describe_stalls(settings), settings.bytes, processes, processes == 1 ? "" : "es", settings.steps,
                 print(comparison, simulation, rehearsal->median()));
    }
  }
  session.close();
  return 0;
}

}  // namespace millrace::tools
