// millrace rehearse: runs the runtime with timers in place of compute, and compares it with the simulator.

#include <algorithm>
#include <cmath>
#include <optional>

#include "actors/jobs/rehearsal.hpp"
#include "actors/planning/link_costs.hpp"
#include "actors/planning/model_costs.hpp"
#include "actors/telemetry/measured_run.hpp"
#include "actors/telemetry/profile_gather.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/profile/analyze.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/simulator/simulate.hpp"
#include "tools/commands/profile_report.hpp"
#include "tools/commands/rehearsal_report.hpp"
#include "tools/commands/schedule_request.hpp"

namespace millrace::tools {
namespace {

constexpr const char* rehearse_component = "millrace rehearse";

/// The schedule to rehearse, and a description of its costs.
struct Request {
  actors::RehearsalSettings settings;
  std::string costs;
  double tokens = 0;  // per step; 0 without a model
  configs::LoadedRun run;
  std::vector<runtime::ExchangeNames> exchange_names = {};  // by stage of a copy; empty: ranks exchange nothing
};

bool is_run(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word.ends_with(".toml") || word.find('=') != std::string::npos; });
}

/// Bytes per millisecond.
double link_rate(const Arguments& parsed) {
  const double rate = parsed.real("link-rate");
  MILLRACE_CHECK(std::isfinite(rate) && rate > 0, ExitCode::usage, rehearse_component, "--link-rate {}, expected a finite number above 0",
                 parsed.text("link-rate"));
  return rate / 1000;
}

/// A request from a run description with the plan that was made for it: its schedule, and the stage durations from its costs
/// (pipeline.costs).
Request run_request(const Arguments& parsed) {
  refuse_sizes("of the run", parsed);
  Request request;
  request.run = load_run(parsed.positional(), Needs::nothing);
  const auto& run = request.run;
  const auto& config = run.config;
  MILLRACE_CHECK(
      !config.pipeline.costs.empty(), ExitCode::config, rehearse_component,
      "pipeline.costs is empty, expected the costs of the model's parts: a plan of millrace plan with --costs, or with --measure "
      "whose times were not in doubt (a busy machine)");
  const auto layers = static_cast<int>(layers::chain_of(config.model).all());
  const auto parts = actors::parse_costs(config.pipeline.costs, run.settings.at("pipeline.costs").origin.place, layers);
  const auto plan = actors::make_plan(
      {config.model, config.train, config.pipeline, config.rematerialize, kernels::device_kind(config.device), false, false, config.mesh});
  std::vector<int> counts;
  for (int stage = 0; stage < plan.schedule.placement.model_stages(); ++stage) {
    const auto& layout = plan.layout[static_cast<std::size_t>(stage)];
    MILLRACE_CHECK(!layout.divides_layers(), ExitCode::config, rehearse_component,
                   "pipeline.layout \"{}\" divides layers, and pipeline.costs has the times of whole ones, expected t instead of a and f",
                   config.pipeline.layout);
    counts.push_back(layout.length());
  }
  const bool exchanges = plan.mesh.expert > 1;
  request.settings.schedule = runtime::one_copy(plan.schedule);
  if (!exchanges) request.settings.schedule = actors::as_run(request.settings.schedule);
  auto& costs = request.settings.costs;
  costs = costs_of(request.settings.schedule, parsed);
  costs.stages = runtime::stage_costs(request.settings.schedule.placement, parts, counts);
  const actors::PlannedLinks links{costs.links.empty() ? 0 : costs.links.front().latency,
                                   parsed.given("link-rate") ? link_rate(parsed) : 0};
  costs.links = actors::link_costs(plan, links);
  costs.exchanges = actors::exchange_costs(plan, links);
  if (exchanges) {
    request.settings.members = plan.mesh.expert;
    request.exchange_names = actors::exchanging_of(plan).names;
    request.exchange_names.resize(costs.stages.size());
  }
  const auto widest = std::ranges::max_element(plan.edge_bytes);  // none with a single stage
  const long bytes = widest == plan.edge_bytes.end() ? 1 : static_cast<long>(*widest);
  request.settings.bytes = static_cast<std::size_t>(parsed.integer("bytes", bytes, 1, 1L << 30));
  const int copies = request.settings.members;
  request.costs = "the parts' times of pipeline.costs, " + plan.layout_text();
  if (exchanges) request.costs += fmt::format(", {} copies that share their experts", copies);
  if (plan.mesh.data > 1 && !exchanges) request.costs += ", one copy";
  request.tokens = static_cast<double>(config.train.microbatches / plan.mesh.data * copies * config.train.batch * config.train.sequence);
  return request;
}

Request table_request(const Arguments& parsed) {
  MILLRACE_CHECK(!parsed.given("link-rate"), ExitCode::usage, rehearse_component,
                 "--link-rate with a table, expected it with RUN.toml, whose boundaries and exchanges have sizes of their own");
  MILLRACE_CHECK(parsed.positional().size() == 1, ExitCode::usage, rehearse_component,
                 "{}, expected one: a built-in schedule ({}), the file of a table, or RUN.toml with its PLAN.toml",
                 counted(parsed.positional().size(), "name"), fmt::join(runtime::schedule_names(), ", "));
  Request request;
  request.settings.schedule = actors::as_run(schedule_of(parsed.positional().front(), parsed));
  request.settings.costs = costs_of(request.settings.schedule, parsed);
  request.settings.bytes = static_cast<std::size_t>(parsed.integer("bytes", 1, 1L << 30));
  request.costs = describe_costs(parsed) + " ms";
  return request;
}

Request request_of(const Arguments& parsed) {
  auto request = is_run(parsed.positional()) ? run_request(parsed) : table_request(parsed);
  MILLRACE_CHECK(!request.settings.schedule.forward_only(), ExitCode::usage, rehearse_component,
                 "{} has no backwards, expected the table of a training step", request.settings.schedule.name);
  request.settings.steps = static_cast<int>(parsed.integer("steps", 1, 10'000));
  return request;
}

std::string describe_rate(const Request& request, double measured, double predicted) {
  if (request.tokens == 0) return "";
  return fmt::format("tokens/s measured {:.1f}, predicted {:.1f}\n", 1e3 * request.tokens / measured, 1e3 * request.tokens / predicted);
}

/// The exchanges of the copies that the rehearsal runs; empty if there are none.
runtime::Exchanging exchanging_of(const Request& request) {
  runtime::Exchanging exchanging;
  if (request.exchange_names.empty()) return exchanging;
  const int copies = request.settings.members, ranks = request.settings.schedule.placement.ranks();
  const auto shapes = runtime::shapes_of(request.settings.costs.exchanges);
  for (int copy = 0; copy < copies; ++copy) {
    exchanging.shapes.insert(exchanging.shapes.end(), shapes.begin(), shapes.end());
    exchanging.names.insert(exchanging.names.end(), request.exchange_names.begin(), request.exchange_names.end());
  }
  for (int rank = 0; rank < copies * ranks; ++rank) {
    auto& members = exchanging.members.emplace_back();
    for (int copy = 0; copy < copies; ++copy) members.emplace_back(copy * ranks + rank % ranks);
  }
  return exchanging;
}

/// The measured steps as a profile in `folder`.
void write_rehearsal_profile(actors::GatheredRecords records, const Request& request, const actors::Session& session,
                             const std::string& folder) {
  runtime::Measured measured;
  measured.run.kind = "rehearsal";
  measured.run.build = build_id();
  measured.run.processes = session.topology().processes();
  const actors::RehearsalSettings& settings = request.settings;
  measured.schedule = runtime::replicate(settings.schedule, settings.members);
  measured.exchanging = exchanging_of(request);
  measured.process_of_rank = std::move(records.processes);
  measured.clocks = std::move(records.clocks);
  measured.traces = std::move(records.traces);
  for (int step = 1; step <= settings.steps; ++step) measured.steps.emplace_back(step);
  measured.planned =
      settings.members == 1 ? settings.costs : runtime::replicate(settings.costs, settings.schedule.placement, settings.members);
  const auto problems = write_profile(runtime::analyze(std::move(measured)), folder);
  MILLRACE_CHECK(problems.empty(), ExitCode::internal, rehearse_component, "the profile in {} is not sound: {}", folder, problems);
}

/// Describes the injected stalls, whether given or drawn at random.
std::string describe_stalls(const actors::RehearsalSettings& settings) {
  std::string text;
  for (const auto& stall : settings.costs.noise.stalls)
    text += fmt::format(" | {:g} ms more of {} on rank {}", stall.duration,
                        settings.schedule.ranks[stall.rank.index()][static_cast<std::size_t>(stall.index)], stall.rank.value);
  return text;
}

int rehearse(const Arguments& parsed) {
  actors::Session session;
  Request request;
  session.prepare_together([&] { request = request_of(parsed); });
  std::optional<actors::GatheredRecords> records;
  if (parsed.given("profile"))
    request.settings.examine = [&](actors::Pipeline& pipeline) { records = actors::gather_records(session, pipeline, 1); };
  const auto& settings = request.settings;
  const auto& schedule = settings.schedule;
  session.connect(schedule.placement.ranks() * settings.members, {});
  session.carry_out([&] {
    if (session.leads()) print_warnings(request.run);
    const auto rehearsal = actors::rehearse(session, settings);
    if (records) write_rehearsal_profile(std::move(*records), request, session, parsed.text("profile"));
    if (!rehearsal) return;
    const auto simulation = runtime::simulate(schedule, settings.costs);
    const bool fastest = parsed.given("fastest");
    const auto& step = fastest ? rehearsal->fastest() : rehearsal->median();
    const auto comparison = compare(schedule, settings.costs, simulation, step);
    if (parsed.given("json")) {
      fmt::print("{}", to_json(comparison, schedule, simulation, *rehearsal, step));
    } else {
      const int processes = session.launch().processes;
      fmt::print("{}\n{}{} | boundaries of {} bytes | {} | {} of {}\n\n{}{}", describe(schedule), request.costs, describe_stalls(settings),
                 settings.bytes, counted(processes, "process"), fastest ? "fastest" : "median", counted(settings.steps, "step"),
                 describe_rate(request, comparison.measured, comparison.predicted), print(comparison, simulation, step));
    }
  });
  return 0;
}

}  // namespace

Command rehearse_command() {
  std::vector<Option> options = schedule_options();
  const auto prices = price_options("20,20,20,0");
  options.insert(options.end(), prices.begin(), prices.end());
  const std::vector<Option> own{
      {.name = "bytes", .value = "B", .help = "Bytes per message between stages. For a run: its own.", .fallback = "65536"},
      {.name = "link-rate",
       .value = "BYTES_PER_SECOND",
       .help = "Of a run: bandwidth of the links between ranks, and of a rank's exchanges with those that share its experts. Default: "
               "unlimited."},
      {.name = "steps", .value = "N", .help = "Steps to measure, after one to warm up.", .fallback = "5"},
      {.name = "fastest", .help = "Show the fastest step, which other work on the machine disturbed least. Default: the median."},
      {.name = "json", .help = "Print JSON."},
      {.name = "profile",
       .value = "FOLDER",
       .help = "Write a profile of the measured steps there, as millrace profile does.",
       .offer = offer_folders}};
  options.insert(options.end(), own.begin(), own.end());
  return {.name = "rehearse",
          .words = "NAME|FILE|RUN.toml PLAN.toml [key=value …]",
          .summary = "Run a schedule with timers in place of compute, beside its prediction. Alone or under mpirun.",
          .notes =
              "The real coordinator, actors, engines, compute workers and links run the schedule. In place of an action's program its "
              "compute worker waits, asleep until shortly before the end, so that many ranks share few cores. Printed are the median "
              "step and the simulator's prediction with the same inputs, by cause and rank. A schedule is run as training runs it: one "
              "kind of backward and, where nothing is exchanged, the halves of overlapped pairs in order. Under mpirun the ranks are "
              "shared between the "
              "processes.\nNAME is a built-in schedule, FILE a table. RUN.toml with PLAN.toml rehearses the run's schedule and layout, "
              "with actions as long as pipeline.costs of the plan says. Where ranks share experts (mesh.expert), "
              "that many copies of the pipeline run and send each other messages of the sizes of their exchanges. Costs are in "
              "milliseconds.",
          .options = options,
          .offer = offer_schedules | offer_run,
          .run = rehearse};
}

}  // namespace millrace::tools
