// millrace plan: finds the best layout, schedule and rematerialisation of a model on these ranks, from the costs of its parts.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "actors/planning/cost_samples.hpp"
#include "actors/planning/expert_room.hpp"
#include "actors/planning/plan_search.hpp"
#include "actors/rank/device_placement.hpp"
#include "actors/setup/parameters_text.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/host_memory.hpp"
#include "configs/value.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/split.hpp"
#include "runtime/units.hpp"
#include "tools/commands/atomic_folder.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/plan_scale.hpp"
#include "tools/commands/recorded_choices.hpp"

namespace millrace::tools {

namespace {

constexpr const char* plan_component = "millrace plan";

std::vector<std::string> names_of(const std::string& text) {
  auto names = runtime::split(text, ',');
  const auto& known = runtime::schedule_names();
  for (const auto& name : names)
    MILLRACE_CHECK(std::find(known.begin(), known.end(), name) != known.end(), ExitCode::usage, plan_component,
                   "--schedules has \"{}\", expected names of schedules{}", name, did_you_mean(name, known));
  return names;
}

actors::RankResources needs_of(const configs::RunConfig& config) {
  actors::RankResources needs;
  actors::plan_for_devices(needs, kernels::device_kind(config.device));
  const auto cores = static_cast<std::int64_t>(cluster::usable_cores());
  needs.threads = static_cast<int>(config.train.threads > 0 ? config.train.threads : std::max<std::int64_t>(1, cores / config.ranks()));
  needs.staging = !config.directory.empty();
  needs.logits = config.sample.tokens > 0;
  if (config.data.evaluates())
    needs.evaluation_microbatches = config.evaluate.batches > 0 ? config.evaluate.batches : config.train.microbatches;
  return needs;
}

/// 0 if the option is not given.
double finite(const Arguments& arguments, const char* option, double (Arguments::*read)(const std::string&) const) {
  if (!arguments.given(option)) return 0;
  const double number = (arguments.*read)(option);
  MILLRACE_CHECK(std::isfinite(number), ExitCode::usage, plan_component, "--{} {}, expected a finite number", option,
                 arguments.text(option));
  return number;
}

/// The input of everything that is printed and written.
struct Planning {
  configs::RunConfig config;
  actors::PlanSearch search;
  actors::ModelCosts costs;  // with the run's own rematerialisation policy
  std::string room;          // of ranks that share experts
  /// Why measured times are not to be believed, of the first policy of which they are not; empty as long as they are.
  std::shared_ptr<std::string> doubt = std::make_shared<std::string>();
  [[nodiscard]] bool believed() const { return doubt->empty(); }
};

void choose_costs(Planning& planning, const Arguments& arguments) {
  const bool measure = arguments.given("measure"), file = arguments.given("costs");
  MILLRACE_CHECK(!measure || !file, ExitCode::usage, plan_component, "--measure and --costs, expected one of them");
  MILLRACE_CHECK(measure || !arguments.given("repeats"), ExitCode::usage, plan_component, "--repeats without --measure, expected both");
  auto& search = planning.search;
  if (file) {
    auto costs = actors::read_costs(arguments.text("costs"), static_cast<int>(layers::chain_of(planning.config.model).all()));
    if (const auto impossible = actors::impossible_costs(costs.parts); !impossible.empty())
      costs.doubt = fmt::format("{}: {}", costs.source, impossible);
    *planning.doubt = costs.doubt;
    search.costs = [costs](const actors::PlanRequest&) { return costs; };
    search.may_rematerialize = false;  // the file's times are those of a single policy
  } else if (measure) {
    const int repeats = static_cast<int>(arguments.integer("repeats", 1, 10000));
    search.costs = [threads = search.needs.threads, repeats, doubt = planning.doubt](const actors::PlanRequest& request) {
      auto costs = actors::measured_costs(request, threads, repeats);
      if (doubt->empty()) *doubt = costs.doubt;
      return costs;
    };
  } else {
    search.costs = actors::flop_costs;
  }
  planning.costs = search.costs(search.request);
  // The run's own policy is measured only once, so the costs that are printed are those used for planning.
  search.costs = [other = search.costs, own = planning.costs, policy = search.request.rematerialize](const actors::PlanRequest& request) {
    return request.rematerialize == policy ? own : other(request);
  };
}

Planning planning_of(const Arguments& arguments) {
  MILLRACE_CHECK(!arguments.positional().empty(), ExitCode::usage, plan_component, "no run description, expected RUN.toml or key=value");
  Planning planning;
  auto run = load_run(arguments.positional(), Needs::nothing);
  print_warnings(run);
  planning.config = std::move(run.config);
  const auto& config = planning.config;
  MILLRACE_CHECK(config.model.hidden_size > 0 && config.model.layers > 0, ExitCode::config, plan_component,
                 "the model's sizes are not given: name a model with model.preset or model.from");
  auto& search = planning.search;
  search.request = {
      config.model,         config.train, config.pipeline, {config.rematerialize.policy, {}}, kernels::device_kind(config.device),
      !config.data.packing, false,        config.mesh};
  planning.room = actors::expert_room_text(search.request, recorded_choices(arguments));
  search.needs = needs_of(config);
  search.schedules = names_of(arguments.text("schedules"));
  if (arguments.given("memory")) search.memory = arguments.bytes("memory");
  choose_costs(planning, arguments);
  search.links = {finite(arguments, "link-latency", &Arguments::real_or_zero), finite(arguments, "link-rate", &Arguments::real) / 1000};
  MILLRACE_CHECK(planning.costs.unit == "ms" || (search.links.latency == 0 && search.links.bytes_per_unit == 0), ExitCode::usage,
                 plan_component, "--link-latency and --link-rate go with times: --measure or --costs");
  return planning;
}

std::string policy_text(const std::vector<std::string>& policy) { return fmt::format("{}", fmt::join(policy, ",")); }

std::string number(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 4 : 2); }

void print_head(const Planning& planning) {
  const configs::RunConfig& config = planning.config;
  const actors::PlanSearch& search = planning.search;
  const actors::ModelCosts& costs = planning.costs;
  fmt::print("model     {}, {}, width {}, vocabulary {}, {}\n", layers::family_title(config.model), counted(config.model.layers, "layer"),
             config.model.hidden_size, config.model.vocab_size, actors::parameters_text(layers::model_parameters(config.model), true));
  fmt::print("step      {} of {} x {} tokens, {}, on {}{} with {} each\n", counted(config.train.microbatches, "microbatch"),
             config.train.batch, config.train.sequence, config.train.dtype,
             actors::copies_text(config.mesh, config.train.leaf == "microbatch"), counted(config.pipeline.ranks, "rank"),
             counted(search.needs.threads, "thread"));
  fmt::print("{}", planning.room);
  fmt::print("costs     {}, {} of a microbatch, rematerialize {}\n", costs.source, costs.unit, policy_text(config.rematerialize.policy));
  if (!costs.doubt.empty()) fmt::print("doubt     {}\n", costs.doubt);
  fmt::print("\n{:<12} {:>10} {:>10} {:>10} {:>10}\n", "part", "F", "I", "W", "B");
  const auto line = [](const std::string& part, const runtime::StageCost& cost) {
    fmt::print("{:<12} {:>10} {:>10} {:>10} {:>10}\n", part, number(cost.forward), number(cost.input_gradient),
               number(cost.weight_gradient), number(cost.backward));
  };
  line("embedding", costs.parts.embedding);
  const auto numbers = [](const runtime::StageCost& cost) {
    return std::array{cost.forward, cost.input_gradient, cost.weight_gradient, cost.backward};
  };
  std::vector<std::size_t> firsts;  // the first layer of each cost
  for (std::size_t layer = 0; layer < costs.parts.layers.size(); ++layer)
    if (std::ranges::none_of(firsts,
                             [&](std::size_t first) { return numbers(costs.parts.layers[first]) == numbers(costs.parts.layers[layer]); }))
      firsts.push_back(layer);
  const auto layers = static_cast<std::size_t>(config.model.layers);
  const bool alike = firsts.size() == 1 || firsts[1] >= layers;
  for (const std::size_t layer : firsts)
    line(layer >= layers ? fmt::format("module {}", layer - layers + 1)
         : alike         ? "layer"
                         : fmt::format("layer {}", layer),
         costs.parts.layers[layer]);
  line("head", costs.parts.head);
  if (!alike && firsts.size() < layers) fmt::print("each layer that is not listed costs as much as one before it\n");
}

/// Steps and speeds from costs in doubt are not shown.
void print_run(const Planning& planning, const char* mark, const actors::PlannedRun& run, const actors::PlannedRun& uniform) {
  const bool believed = planning.believed();
  fmt::print("{:<8} {:<15} {:>6}  {:<14} {:>10} {:>7} {:>12} {:>8}  {}\n", mark, run.schedule, run.chunks, run.policy_text(),
             believed ? number(run.step) : "?", believed ? fmt::format("{:.1f}%", 100 * run.bubble) : "?",
             runtime::bytes_text(run.max_bytes()), believed ? fmt::format("{:.3f}x", uniform.step / run.step) : "?", run.layout);
}

void print_runs(const Planning& planning, const actors::PlanResult& result) {
  fmt::print("\n{:<8} {:<15} {:>6}  {:<14} {:>10} {:>7} {:>12} {:>8}  {}\n", "", "schedule", "chunks", "rematerialize",
             "step " + planning.costs.unit, "bubble", "fullest rank", "speed", "layout");
  print_run(planning, "uniform", result.uniform, result.uniform);
  for (const auto& run : result.runs) print_run(planning, &run == &result.runs.front() ? "plan" : "", run, result.uniform);
  for (const auto& other : result.others) fmt::print("not {}: {}\n", other.schedule, other.reason);
}

void print_ranks(const Planning& planning, const actors::PlannedRun& uniform, const actors::PlannedRun& plan) {
  const auto idle = [&](double share) { return planning.believed() ? fmt::format("{:.1f}%", 100 * share) : "?"; };
  fmt::print("\n{:>5}  {:>14} {:>12}  {:>14} {:>12}\n", "rank", "uniform idle", "memory", "plan idle", "memory");
  for (std::size_t rank = 0; rank < plan.idle.size(); ++rank)
    fmt::print("{:>5}  {:>14} {:>12}  {:>14} {:>12}\n", rank, idle(uniform.idle[rank]), runtime::bytes_text(uniform.bytes[rank]),
               idle(plan.idle[rank]), runtime::bytes_text(plan.bytes[rank]));
  if (const auto ranks = planning.config.ranks(); ranks > 1)
    fmt::print("memory is that of a process for each rank (mpirun -np {}); ranks that share one need less{}\n", ranks,
               planning.config.mesh.copies() > 1 ? "; the ranks of every copy need as much" : "");
}

/// Without --memory no layout is excluded for its memory, but this machine's memory is printed.
void print_room(const actors::PlannedRun& plan, std::int64_t ranks) {
  const auto bounds = cluster::memory_bounds(cluster::HostFiles::of_this_host());
  if (bounds.empty()) return;
  const auto& bound = bounds.front();
  const auto share = bound.free / static_cast<std::uint64_t>(ranks);
  fmt::print("\nmemory    no limit was given; here {} are free, {} for each of {} on one host: {}\n", runtime::bytes_text(bound.free),
             runtime::bytes_text(share), counted(ranks, "rank"), bound.source);
  if (plan.max_bytes() > share)
    fmt::print("          the fullest rank takes {}: --memory {} plans for this host\n", runtime::bytes_text(plan.max_bytes()), share);
}

void print_choice(const Planning& planning, const actors::PlanResult& result) {
  const auto& plan = result.runs.front();
  print_ranks(planning, result.uniform, plan);
  if (!planning.search.memory) print_room(plan, planning.config.ranks());
  const auto& train = planning.config.train;
  fmt::print("\nplan      {}, {}, {} per rank, rematerialize {}{}\n", plan.layout, plan.schedule, counted(plan.chunks, "chunk"),
             plan.policy_text(), planning.config.mesh.expert > 1 ? ", weave " + plan.weave : "");
  if (!planning.believed()) {
    if (planning.costs.doubt.empty()) fmt::print("doubt     {}\n", *planning.doubt);
    fmt::print(
        "predicts  nothing, since the times cannot be believed: measure on a quiet machine, or plan by FLOPs, without --measure and "
        "--costs\n");
    return;
  }
  fmt::print("predicts  a step of {} {}, {:.3f} x the tokens/s of uniform 1f1b ({} {})", number(plan.step), planning.costs.unit,
             result.uniform.step / plan.step, number(result.uniform.step), planning.costs.unit);
  if (planning.costs.unit == "ms")
    fmt::print(", {:.1f} tokens/s", 1e3 * static_cast<double>(train.microbatches * train.batch * train.sequence) / plan.step);
  fmt::print("; without data{}\n", plan.update > 0 ? fmt::format(", {} ms for norm and optimizer", number(plan.update)) : " and optimizer");
  if (planning.config.mesh.copies() > 1)
    fmt::print("copies    a rank sends {} to its replicas in a step (mesh.shard = {}); {} {} of the step are waits for that{}\n",
               runtime::bytes_text(plan.sent), planning.config.mesh.shard, number(plan.exposed), planning.costs.unit,
               planning.search.links.bytes_per_unit > 0 ? "" : " (without --link-rate bytes take no time)");
}

/// The band of the predicted step, on all ranks of the mesh.
void print_band(runtime::PredictionError error, const Planning& planning, double step) {
  const auto ranks = static_cast<double>(planning.config.mesh.copies() * planning.config.pipeline.ranks);
  if (error.ranks == 0) error.ranks = ranks;
  const double off = error.at(ranks);
  fmt::print("band      {} to {} {}: predictions are off by {:.2f} % at {:g} ranks\n", number(std::max(0.0, step * (1 - off))),
             number(step * (1 + off)), planning.costs.unit, 100 * off, ranks);
}

/// A run description with the keys that the plan decides, and the inputs of its decision as comments.
std::string plan_file(const Planning& planning, const actors::PlanResult& result) {
  const auto& plan = result.runs.front();
  const auto& pipeline = planning.config.pipeline;
  std::string text = planning.believed()
                         ? fmt::format("# millrace plan: predicts {:.6g} {} per step, {:.3f} x uniform 1f1b, bubble {:.1f} %", plan.step,
                                       planning.costs.unit, result.uniform.step / plan.step, 100 * plan.bubble)
                         : fmt::format("# millrace plan: predicts nothing, since {}", *planning.doubt);
  text += fmt::format(", fullest rank {} bytes.\n", plan.max_bytes());
  text +=
      fmt::format("# For {} of {} x {} tokens. Costs in {}: {}, rematerialize {}.\n",
                  counted(planning.config.train.microbatches, "microbatch"), planning.config.train.batch, planning.config.train.sequence,
                  planning.costs.unit, planning.costs.source, policy_text(planning.config.rematerialize.policy));
  text += fmt::format("\n[pipeline]\nranks = {}\nchunks = {}\nschedule = {}\nlayout = {}\n", pipeline.ranks, plan.chunks,
                      configs::in_quotes(plan.schedule), configs::in_quotes(plan.layout));
  if (planning.config.mesh.expert > 1) text += fmt::format("weave = {}\n", configs::in_quotes(plan.weave));
  if (planning.costs.unit == "ms" && planning.believed())
    text += fmt::format("costs = {}\n", configs::to_text(actors::print_costs(plan.parts)));
  if (!pipeline.plan.empty()) text += "plan = \"\"\n";
  if (pipeline.warmup != -1) text += "warmup = -1\n";
  if (pipeline.group != 0) text += "group = 0\n";
  text += "\n[rematerialize]\n";
  if (plan.stages.empty()) text += fmt::format("policy = {}\n", configs::to_text(plan.policy));  // has no effect beside stages
  if (!plan.stages.empty() || !planning.config.rematerialize.stages.empty())
    text += fmt::format("stages = {}\n", configs::to_text(plan.stages));
  return text;
}

/// The arguments that a run by the plan needs, too: all but the keys that the plan decides.
std::string undecided(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words)
    if (!word.starts_with("pipeline.") && !word.starts_with("rematerialize.")) text += word + " ";
  return text;
}

int plan(const Arguments& parsed) {
  const auto scale = read_scale(parsed);
  const auto error = read_error(parsed);
  const auto file = parsed.text("out");
  want_overwrite(file, parsed.given("overwrite"), plan_component);
  MILLRACE_CHECK(!file.empty() || !parsed.given("overwrite"), ExitCode::usage, plan_component, "--overwrite without --out, expected both");
  const auto planning = planning_of(parsed);
  print_head(planning);
  const auto result = actors::search_plans(planning.search);
  print_runs(planning, result);
  MILLRACE_CHECK(!result.runs.empty(), ExitCode::config, plan_component, "no schedule fits: a rank may have {}, uniform 1f1b takes {}",
                 byte_count(planning.search.memory.value_or(0)), byte_count(result.uniform.max_bytes()));
  print_choice(planning, result);
  if (error && !scale && planning.believed()) print_band(*error, planning, result.runs.front().step);
  if (scale && planning.believed()) print_scale(*scale, planning.search.request, result.runs.front());
  if (file.empty()) return 0;
  runtime::write_text_file(file, plan_file(planning, result));
  fmt::print("wrote     {}: millrace train {}{}\n", file, undecided(parsed.positional()), file);
  return 0;
}

}  // namespace

Command plan_command() {
  std::vector<Option> options{
      {.name = "measure",
       .help = "Run the programs of the embedding, of one layer of each kind, of each module and of the head here to measure their times. "
               "Default: count FLOPs."},
      {.name = "repeats",
       .value = "N",
       .help = "Runs of each program, of which the median is taken; if other programs disturb them, up to four times as many are made, and "
               "the least is taken.",
       .fallback = "7"},
      {.name = "costs",
       .value = "FILE",
       .help = "Read times from a file with a line part,F,I,W[,B] in ms per part; parts are embedding, layer, layer 3, layer 4-7, head; "
               "modules of multi-token prediction are layers behind the last.",
       .offer = offer_files},
      {.name = "schedules",
       .value = "A,B,C",
       .help = "Schedules to choose from.",
       .fallback = "1f1b,zb-h1,zb-h2,interleaved,interleaved-zb,zb-v,v-half,v-min",
       .offer = offer_schedules},
      {.name = "memory",
       .value = "BYTES",
       .help = "Memory per rank in a process of its own, such as 15GiB: choose layouts that fit and, if none does, keep less from forward "
               "to backward."},
      {.name = "link-latency",
       .value = "MS",
       .help = "Latency of the links between ranks, and of exchanges between ranks that share experts. Default: 0."},
      {.name = "link-rate",
       .value = "BYTES_PER_SECOND",
       .help = "Bandwidth of the links between ranks, and of a rank's exchanges. Default: unlimited."},
      {.name = "out",
       .value = "FILE",
       .help = "Write a plan that train reads: `train RUN.toml FILE`, or pipeline.plan=FILE.",
       .offer = offer_files},
      {.name = "overwrite", .help = "Replace an existing file."}};
  options.push_back(choices_option());
  const auto scale = scale_options();
  options.insert(options.end(), scale.begin(), scale.end());
  return {.name = "plan",
          .words = run_words,
          .summary = "Choose layout, schedule and rematerialisation by the costs of the model's parts.",
          .notes = "docs/planning.md explains what is printed.",
          .options = options,
          .offer = offer_run,
          .run = plan};
}

}  // namespace millrace::tools
