#include <algorithm>

#include "actors/jobs/run_setup.hpp"
#include "actors/planning/expert_room.hpp"
#include "actors/rank/batch_provider.hpp"
#include "actors/rank/device_placement.hpp"
#include "actors/rank/memory_check.hpp"
#include "actors/setup/parameters_text.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/program/print.hpp"
#include "runtime/schedule/simulator/replay.hpp"
#include "runtime/units.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/rank_preview.hpp"
#include "tools/commands/recorded_choices.hpp"

namespace millrace::tools {
namespace {

using runtime::ProgramKind;

constexpr const char* inspect_component = "millrace inspect";
constexpr double giga = 1e9;

/// The values of --program.
const std::vector<std::pair<std::string, ProgramKind>>& program_words() {
  static const std::vector<std::pair<std::string, ProgramKind>> words{{"forward", ProgramKind::forward},
                                                                      {"input_gradient", ProgramKind::input_gradient},
                                                                      {"weight_gradient", ProgramKind::weight_gradient},
                                                                      {"backward", ProgramKind::backward},
                                                                      {"evaluate", ProgramKind::evaluate}};
  return words;
}

/// The input of everything that is printed: the run, its plan, and each rank's memory.
struct Inspection {
  configs::RunConfig config;
  actors::PipelinePlan plan;
  actors::RankResources options;
  bool threads_given = false;
  std::string room;  // of ranks that share experts
  std::string data;  // what training reads and holds out, or why that is unknown
};

/// Determines the held-out microbatches. A plan can be inspected without its data: the number is then an estimate.
void look_at_data(Inspection& run) {
  const auto& config = run.config;
  auto& evaluated = run.options.evaluation_microbatches;
  if (config.data.evaluates()) evaluated = config.evaluate.batches > 0 ? config.evaluate.batches : config.train.microbatches;
  try {
    const actors::DatasetBatches batches(runtime::open_dataset(config.data, config.model.vocab_size),
                                         actors::batch_shape(config.train, config.data, config.model));
    const auto& data = batches.dataset();
    evaluated = batches.evaluation_microbatches();
    if (config.evaluate.batches > 0) evaluated = std::min(evaluated, config.evaluate.batches);
    std::string sources;
    for (const std::string& source : batches.sources_text(config.train.steps)) sources += fmt::format("source    {}\n", source);
    run.data = fmt::format("data      {} tokens in {}\n{}held out  {}{}", data.train_tokens(), counted(data.train_files, "file"), sources,
                           data.held_out_text, data.held_out ? fmt::format(" | {} per evaluation", counted(evaluated, "microbatch")) : "");
  } catch (const Error& error) {
    run.data = fmt::format("data      not read: {}", without_component(error.what()));
    if (evaluated > 0 && config.evaluate.batches == 0)
      run.data += fmt::format("\nheld out  not known: evaluate.batches = 0 means all of it, counted here as {} of 16 bytes of results",
                              counted(evaluated, "microbatch"));
  }
}

Inspection inspection_of(const Arguments& arguments) {
  Inspection result;
  auto run = load_run(arguments.positional(), Needs::nothing);
  print_warnings(run);
  result.config = std::move(run.config);
  const auto& config = result.config;
  MILLRACE_CHECK(config.model.hidden_size > 0 && config.model.layers > 0, ExitCode::config, inspect_component,
                 "the model's sizes are not given: name a model with model.preset or model.from");
  const actors::PlanRequest request{
      config.model,         config.train, config.pipeline, config.rematerialize, kernels::device_kind(config.device),
      !config.data.packing, false,        config.mesh};
  result.plan = actors::make_plan(request);
  result.room = actors::expert_room_text(request, recorded_choices(arguments));
  result.threads_given = config.train.threads > 0;
  const auto automatic = std::max<std::int64_t>(1, cluster::usable_cores() / config.ranks());
  actors::plan_for_devices(result.options, kernels::device_kind(config.device));
  result.options.threads = static_cast<int>(result.threads_given ? config.train.threads : automatic);
  result.options.staging = !config.directory.empty();
  result.options.logits = config.sample.tokens > 0;
  look_at_data(result);
  return result;
}

/// Parameters that are updated alike.
struct UpdatedAlike {
  std::int64_t tensors = 0, elements = 0;
  std::int64_t decaying = 0, decaying_elements = 0;  // … to which weight decay applies

  void add(const layers::ParameterSpec& spec, bool decays) {
    ++tensors;
    elements += spec.shape.elements();
    if (!decays) return;
    ++decaying;
    decaying_elements += spec.shape.elements();
  }
  [[nodiscard]] std::string text(std::int64_t count, std::int64_t size) const {
    return fmt::format("{} ({})", counted(count, "tensor"), runtime::count_text(static_cast<double>(size)));
  }
  /// "12 tensors (1.2k), weight decay 0.1 on 3 tensors (1.1k)"
  [[nodiscard]] std::string with_decay(double decay) const {
    const std::string all = text(tensors, elements);
    if (decaying == 0) return all + ", no weight decay";
    return fmt::format("{}, weight decay {}{}", all, decay, decaying == tensors ? "" : " on " + text(decaying, decaying_elements));
  }
};

/// Which parameters the optimizer updates, and how: by group, then those without one. Muon's matrices have a decay of their own.
void print_update(const Inspection& run) {
  const auto& train = run.config.train;
  const auto& groups = run.plan.groups;
  struct Row {
    UpdatedAlike matrices, others;  // without Muon all are others
  };
  std::vector<Row> rows(groups.size() + 1);
  UpdatedAlike frozen;
  for (const auto& spec : run.plan.parameters) {
    if (spec.use != 0) continue;
    if (!run.plan.is_trained(spec)) {
      frozen.add(spec, false);
      continue;
    }
    const bool is_matrix = train.optimizer == "muon" && run.plan.matrices.matrices(spec.name, spec.shape, spec.stored).count > 0;
    Row& row = rows[groups.group_of(spec.name).value_or(groups.size())];
    (is_matrix ? row.matrices : row.others).add(spec, groups.decays(spec.name, spec.shape));
  }
  fmt::print("optimizer {}\n", train.optimizer);
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const bool is_group = index < groups.size();
    const auto scalars = is_group ? groups.scalars_of(index) : runtime::GroupScalars{};
    const auto print = [&](const UpdatedAlike& alike, const char* of_all, double decay) {
      if (alike.tensors == 0) return;
      const std::string label = is_group ? fmt::format("group \"{}\"{}", train.groups[index], of_all)
                                         : fmt::format("{}{}", groups.size() > 0 ? "no group" : "all", of_all);
      fmt::print("  {}: {}, learning rate x {}\n", label, alike.with_decay(scalars.weight_decay.value_or(decay)), scalars.rate);
    };
    print(rows[index].matrices, ", matrices", train.muon_weight_decay);
    print(rows[index].others, train.optimizer == "muon" ? ", others" : "", train.weight_decay);
  }
  if (frozen.tensors > 0) fmt::print("  not trained: {}\n", frozen.text(frozen.tensors, frozen.elements));
}

void print_head(const Inspection& run) {
  const auto& plan = run.plan;
  const auto& train = run.config.train;
  fmt::print("model     {}, {}, width {}, {}{}\n", layers::family_title(plan.model), counted(plan.model.layers, "layer"),
             plan.model.hidden_size, actors::parameters_text(plan.parameters, true), plan.model.tie_word_embeddings ? ", tied" : "");
  fmt::print("step      {} of {} x {} tokens, {}, rematerialize {}\n", counted(train.microbatches, "microbatch"), train.batch,
             train.sequence, train.dtype,
             fmt::join(run.config.rematerialize.stages.empty() ? run.config.rematerialize.policy : run.config.rematerialize.stages, ","));
  fmt::print("pipeline  {}{} x {}, schedule {}, layout {}\n", plan.copies_text(), counted(plan.schedule.placement.positions(), "rank"),
             counted(run.config.pipeline.chunks, "chunk"), plan.schedule.name, plan.layout_text());
  fmt::print("threads   {} a rank{}\n", run.options.threads,
             run.threads_given ? "" : " (train.threads = 0: this machine's cores / ranks; kernel scratch grows with them)");
  print_update(run);
  fmt::print("{}{}\n", run.room, run.data);
}

double total_flops(const runtime::ProgramSet& programs, ProgramKind kind) { return programs.cost(kind).flops / giga; }

std::string short_text(double number) { return fmt::format("{:.{}f}", number, number < 10 ? 4 : 1); }

std::size_t slot_bytes(const runtime::Stage& runner, runtime::Region region) {
  return runner.plan().region_bytes[static_cast<std::size_t>(region)];
}

void print_stages(const Inspection& run, const std::vector<std::unique_ptr<RankPreview>>& ranks) {
  const auto& plan = run.plan;
  fmt::print("\n{:>5} {:>5}  {:<10} {:>14} {:>16} {:>10} {:>10} {:>10}  {:>21} {:>21} {:>21}\n", "stage", "rank", "holds", "parameters",
             "shard", "F GFLOP", "I GFLOP", "W GFLOP", "stash F..I", "stash F..W", "handoff I..W");
  double step = 0;
  for (int index = 0; index < plan.stages(); ++index) {
    const runtime::StageId stage(index);
    const auto rank = plan.schedule.placement.rank_of(stage);
    const auto& preview = *ranks.at(rank.index());
    const auto& runner = preview.stage(stage);
    const auto& programs = runner.programs();
    std::int64_t weights = 0;
    for (const auto& spec : layers::parameters(plan.parameters, plan.model, plan.layout[stage.index()], {}, plan.expert_group(stage).group))
      weights += spec.shape.elements();
    const auto& slots = plan.ledger.stages.at(stage.index());
    const auto stash = [&](int count, runtime::Region region) { return fmt::format("{} x {} B", count, slot_bytes(runner, region)); };
    const double forward = total_flops(programs, ProgramKind::forward), input = total_flops(programs, ProgramKind::input_gradient),
                 weight = total_flops(programs, ProgramKind::weight_gradient);
    fmt::print("{:>5} {:>5}  {:<10} {:>14} {:>14} B {:>10} {:>10} {:>10}  {:>21} {:>21} {:>21}\n", index, rank.value,
               layers::print_layout({plan.layout[stage.index()]}), weights, preview.shard_bytes(stage), short_text(forward),
               short_text(input), short_text(weight), stash(slots.stash_input, runtime::Region::stash_input),
               stash(slots.stash_weight, runtime::Region::stash_weight),
               stash(plan.split_backward ? slots.handoff : 0, runtime::Region::handoff));
    step += static_cast<double>(plan.schedule.microbatches_of(stage)) * (forward + input + weight);
  }
  const double model = plan.model_flops(plan.schedule.microbatches) / giga;
  fmt::print("a step computes {} GFLOP in programs, {} GFLOP as model FLOPs are counted (6 a weight and token, attention)\n",
             short_text(step), short_text(model));
}

void print_channels(const actors::PipelinePlan& plan) {
  const auto channels = plan.channels();
  if (channels.empty()) return;
  fmt::print("\n{:>7} {:>5} {:>5}  {:<11} {:>6} {:>14}\n", "channel", "from", "to", "carries", "depth", "bytes/slot");
  for (const auto& channel : channels) {
    const char* carries = channel.kind == cluster::ChannelKind::activation ? "activation"
                          : channel.kind == cluster::ChannelKind::gradient ? "gradient"
                                                                           : "sums";
    fmt::print("{:>7} {:>5} {:>5}  {:<11} {:>6} {:>14}\n", channel.id, channel.from_rank, channel.to_rank, carries, channel.depth,
               channel.bytes);
  }
}

std::string stages_text(const std::vector<runtime::StageId>& stages) {
  std::string text;
  for (const auto stage : stages) text += fmt::format("{}{}", text.empty() ? "" : ",", stage.value);
  return text;
}

/// The step simulated with durations proportional to FLOPs, free links and equally fast ranks.
runtime::Timeline timeline_of(const actors::PipelinePlan& plan, const std::vector<std::unique_ptr<RankPreview>>& ranks) {
  std::vector<runtime::StageCost> costs;
  for (int index = 0; index < plan.stages(); ++index) {
    const runtime::StageId stage(index);
    const auto& programs = ranks.at(plan.schedule.placement.rank_of(stage).index())->stage(stage).programs();
    const auto flops = [&](ProgramKind kind) { return programs.cost(kind).flops; };
    costs.push_back({flops(ProgramKind::forward), flops(ProgramKind::input_gradient), flops(ProgramKind::weight_gradient),
                     flops(ProgramKind::backward)});
  }
  return runtime::replay(plan.schedule, costs, 0);
}

/// The host memory of all ranks together.
std::uint64_t host_bytes_of(const std::vector<std::unique_ptr<RankPreview>>& ranks) {
  std::uint64_t sum = 0;
  for (const auto& rank : ranks) sum += actors::host_bytes(rank->memory());
  return sum;
}

/// The ranks as a job of this many processes has them. Ranks of one process pass boundaries by pointer and need fewer rings.
std::vector<std::unique_ptr<RankPreview>> previews_of(const Inspection& run, int processes) {
  auto options = run.options;
  options.ranks_per_process = run.plan.ranks() / processes;
  std::vector<std::unique_ptr<RankPreview>> ranks;
  for (int rank = 0; rank < run.plan.ranks(); ++rank)
    ranks.push_back(std::make_unique<RankPreview>(run.plan, runtime::RankId(rank), options));
  return ranks;
}

/// Prints the memory that the ranks need and the memory that this machine has, assuming that all ranks run on one host: with a process for
/// each, and in one process, as without a launcher. A plan may be meant for other machines, so too little memory is reported but is no
/// error.
void print_room(const Inspection& run, const std::vector<std::unique_ptr<RankPreview>>& separate,
                const std::vector<std::unique_ptr<RankPreview>>& ranks) {
  const auto bounds = cluster::memory_bounds(cluster::HostFiles::of_this_host());
  if (bounds.empty()) return;
  const std::uint64_t sum = host_bytes_of(ranks);
  const auto passed = actors::passed_bound(bounds, {sum, sum, sum});
  const auto& bound = passed ? *passed : bounds.front();
  if (ranks.size() == 1)
    fmt::print("memory {} of this host for the rank", runtime::bytes_text(sum));
  else
    fmt::print("memory {} of this host for all {} ranks in one process, {} under mpirun -np {}", runtime::bytes_text(sum), ranks.size(),
               runtime::bytes_text(host_bytes_of(separate)), ranks.size());
  fmt::print(", {} free here: {}\n", runtime::bytes_text(bound.free), bound.source);
  if (!passed) return;
  fmt::print("It does not fit: train would end with code {} before it allocates anything.\n", static_cast<int>(ExitCode::memory));
  for (const auto& rank : ranks)
    fmt::print("  rank {}: {} ({})\n", rank->rank().value, runtime::bytes_text(actors::host_bytes(rank->memory())), rank->memory().needs());
  if (run.plan.ranks() > 1) fmt::print("On several hosts each needs memory for its own ranks only.\n");
}

void print_overview(const Inspection& run) {
  const auto ranks = previews_of(run, run.plan.ranks());
  print_stages(run, ranks);
  print_channels(run.plan);
  const auto timeline = timeline_of(run.plan, ranks);
  fmt::print("\n{:>5}  {:<10} {:>14} {:>6} {:>16}\n", "rank", "stages", "parameters", "idle", "peak bytes");
  double idle_sum = 0;
  for (const auto& rank : ranks) {
    const double idle = timeline.makespan > 0 ? 1 - timeline.busy.at(rank->rank().index()) / timeline.makespan : 0;
    idle_sum += idle;
    fmt::print("{:>5}  {:<10} {:>14} {:>5.1f}% {:>16}  {}\n", rank->rank().value,
               stages_text(run.plan.schedule.placement.stages_of(rank->rank())), rank->parameters(), 100 * idle, rank->peak_bytes(),
               runtime::bytes_text(rank->peak_bytes()));
  }
  fmt::print("idle {:.1f} % of the ranks' time, if time went by FLOPs and links cost nothing\n",
             100 * idle_sum / static_cast<double>(ranks.size()));
  const auto shared = previews_of(run, 1);
  std::size_t most = 0;
  for (const auto& rank : shared) most = std::max(most, rank->peak_bytes());
  if (ranks.size() > 1)
    fmt::print("peak bytes are those of a process for each rank (mpirun -np {}); if all share one, the rank with the most has {}\n",
               ranks.size(), runtime::bytes_text(most));
  print_room(run, ranks, shared);
  fmt::print("\n--stage S prints a stage's programs and its rank's memory.\n");
}

runtime::BackwardMode mode_of(const actors::PipelinePlan& plan) {
  return plan.split_backward ? runtime::BackwardMode::split : runtime::BackwardMode::fused;
}

/// The program with the places that this run's schedule gives it, or, where the schedule does not run it, those of one that does.
void print_program(const Inspection& run, const runtime::Stage& runner, ProgramKind kind) {
  fmt::print("\n");
  if (kind == ProgramKind::evaluate) {
    fmt::print("{}", runtime::print(runner.programs(), kind, runner.plan(runtime::Pass::evaluate)));
    return;
  }
  if (runtime::runs(mode_of(run.plan), kind)) {
    fmt::print("{}", runtime::print(runner.programs(), kind, runner.plan()));
    return;
  }
  const auto other = run.plan.split_backward ? runtime::BackwardMode::fused : runtime::BackwardMode::split;
  fmt::print("schedule {} does not run this program; the places are those of a schedule with {}:\n", run.plan.schedule.name,
             run.plan.split_backward ? "B in one piece" : "B split in I and W");
  fmt::print("{}", runtime::print(runner.programs(), kind,
                                  runtime::plan_memory(runner.programs(), other, runner.shard_layout().places(), run.options.threads)));
}

void print_stage(const Inspection& run, runtime::StageId stage, const std::string& program) {
  const auto rank_id = run.plan.schedule.placement.rank_of(stage);
  const RankPreview rank(run.plan, rank_id, run.options);
  const auto& runner = rank.stage(stage);
  fmt::print("\nstage {} on rank {}, holds {}\n", stage.value, rank_id.value, layers::print_layout({run.plan.layout[stage.index()]}));
  for (const auto& [name, kind] : program_words()) {
    const bool wanted = program.empty() ? runtime::runs(mode_of(run.plan), kind) : name == program;
    if (wanted) print_program(run, runner, kind);
  }
  fmt::print("\nmemory of rank {}, with all its stages ({}):\n{}", rank_id.value,
             stages_text(run.plan.schedule.placement.stages_of(rank_id)), rank.print());
}

int inspect(const Arguments& parsed) {
  const auto program = parsed.text("program");
  MILLRACE_CHECK(parsed.given("stage") || !parsed.given("program"), ExitCode::usage, inspect_component, "--program {} without --stage",
                 program);
  const auto run = inspection_of(parsed);
  const long stage = parsed.integer("stage", 0, run.plan.stages() - 1);
  print_head(run);
  if (parsed.given("stage")) {
    print_stage(run, runtime::StageId(static_cast<int>(stage)), program);
  } else {
    print_overview(run);
  }
  return 0;
}

}  // namespace

Command inspect_command() {
  std::vector<std::string> programs;
  for (const auto& [name, kind] : program_words()) programs.push_back(name);
  return {.name = "inspect",
          .words = run_words,
          .summary = "Print the programs of a run before it starts: operations, shapes, labels, FLOPs, bytes, memory.",
          .options = {{.name = "stage", .value = "S", .help = "Print the programs of this stage and its rank's memory.", .fallback = "0"},
                      {.name = "program", .value = "NAME", .help = "With --stage: print this program only.", .choices = programs},
                      choices_option()},
          .offer = offer_run,
          .run = inspect};
}

}  // namespace millrace::tools
