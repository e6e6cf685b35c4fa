#include "tests/browser/synthetic_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "runtime/schedule/simulator/memory_curve.hpp"

namespace millrace::tests {
namespace {

using namespace runtime;

constexpr double peak_flops = 1.2e11, memory_bandwidth = 2.1e10;  // of a rank's cores
constexpr int layers_of_a_stage = 2;
constexpr double mebibyte = 1024 * 1024;

class ProfileWriter {
 public:
  explicit ProfileWriter(const SyntheticRun& run)
      : run_(run),
        schedule_(make_schedule(
            {.name = run.schedule, .ranks = run.ranks, .chunks = usual_chunks(run.schedule), .microbatches = run.microbatches})),
        costs_(planned_costs()),
        plan_(simulate(schedule_, costs_)) {}

  Json write() {
    Json profile{{"format", "millrace.profile.1"}};
    write_run(profile);
    write_steps(profile);
    write_lateness(profile);
    profile["operations"] = run_.rehearsal ? Json::array() : operations();
    if (run_.experts) profile["exchanges"] = exchanges();
    profile["memory"] = memory();
    profile["loss"] = run_.rehearsal ? Json::array() : losses();
    return profile;
  }

 private:
  const Placement& placement() const { return schedule_.placement; }
  int slow_rank() const { return run_.ranks / 2; }

  Costs planned_costs() const {
    Costs costs;
    costs.stages = uniform_costs(schedule_.placement, 8, 9, 7);
    costs.stages.back().forward *= 1.12;  // the head
    costs.links = uniform_links(schedule_.placement, 0.15);
    return costs;
  }

  // Slightly uneven ranks, one slow rank, one rank that stalled once, and links that take longer than planned.
  Costs measured_costs(int step) const {
    Costs costs = costs_;
    costs.links = uniform_links(placement(), 0.4);
    costs.noise.slowdown.assign(static_cast<std::size_t>(run_.ranks), 1.01);
    costs.noise.slowdown[static_cast<std::size_t>(slow_rank())] = 1.18;
    costs.noise.jitter = 0.05;
    costs.noise.seed = static_cast<std::uint64_t>(step);
    costs.noise.stalls = {{RankId{run_.ranks - 1}, static_cast<int>(schedule_.ranks.back().size() / 2), 11.0}};
    return costs;
  }

  void write_run(Json& profile) const {
    const int stages = placement().stages();
    profile["run"] = {{"model", "llama"},
                      {"parameters", 1048576L * 12 * stages},
                      {"dtype", "f32"},
                      {"schedule", run_.schedule},
                      {"ranks", run_.ranks},
                      {"processes", run_.processes},
                      {"stages", stages},
                      {"microbatches", run_.microbatches},
                      {"layout", "E t*2 | t*2 | … | t*2 H"},
                      {"threads", 1},
                      {"tokens_per_step", 512 * run_.microbatches},
                      {"flops_per_step", 7.5e9 * stages * run_.microbatches},
                      {"build", "0.1.0 synthetic"},
                      {"kind", run_.rehearsal ? "rehearsal" : "training"}};
    profile["machine"] = run_.rehearsal ? Json{{"peak_flops", nullptr}, {"memory_bandwidth", nullptr}}
                                        : Json{{"peak_flops", peak_flops}, {"memory_bandwidth", memory_bandwidth}};
    for (int process = 0; process < run_.processes; ++process)
      profile["clocks"].push_back({{"process", process},
                                   {"host", fmt::format("node-{}", process * 2 / run_.processes)},
                                   {"offset_ms", process == 0 ? 0.0 : rounded(0.8 * std::sin(process))},
                                   {"bound_ms", process == 0 ? 0.0 : 0.0062 + 0.0004 * (process % 5)}});
    for (int rank = 0; rank < run_.ranks; ++rank) {
      Json stages_of = Json::array();
      for (const StageId stage : placement().stages_of(RankId{rank})) stages_of.push_back(stage.value);
      profile["ranks"].push_back({{"rank", rank}, {"process", rank * run_.processes / run_.ranks}, {"stages", stages_of}});
    }
    profile["causes"] = causes();
  }

  void write_steps(Json& profile) {
    double begin = 0;
    const double predicted = plan_.makespan + 6;
    for (int index = 0; index < run_.steps; ++index) {
      const int number = first_step() + index;
      const SyntheticStep step = synthetic_step(schedule_, measured_costs(number), plan_, begin, index == std::min(1, run_.steps - 1));
      profile["steps"].push_back({{"step", number},
                                  {"begin", rounded(begin)},
                                  {"duration", rounded(step.duration)},
                                  {"loss", run_.rehearsal ? Json() : Json(loss(number))},
                                  {"mfu", run_.rehearsal ? Json() : Json(0.41)},
                                  {"predicted", rounded(predicted)},
                                  {"ranks", step.attribution},
                                  {"wall", step.wall}});
      if (index == std::min(1, run_.steps - 1))
        profile["timeline"] = {{"step", number},
                               {"duration", rounded(step.duration)},
                               {"predicted", rounded(predicted)},
                               {"measured", step.measured},
                               {"planned", planned_lists(schedule_, plan_, begin)},
                               {"waits", step.waits},
                               {"sends", step.sends}};
      begin += step.duration + 0.3;
    }
  }

  static constexpr int known_losses = 60;
  int first_step() const { return known_losses - run_.steps + 1; }
  static double loss(int step) {
    return std::round((5.54 * std::exp(-step / 45.0) + 1.2 + 0.05 * std::sin(step * 12.9898) * std::cos(step * 4.1)) * 1e5) / 1e5;
  }
  static Json losses() {
    Json list = Json::array();
    for (int step = 1; step <= known_losses; ++step) list.push_back({step, loss(step)});
    return list;
  }

  void write_lateness(Json& profile) const {
    const int rank = slow_rank(), stage = placement().stages_of(RankId{rank}).front().value;
    const double more = 0.18 * 8 * run_.microbatches;
    profile["lateness"] = Json::array();
    const auto add = [&](double cost, const std::string& what) {
      profile["lateness"].push_back({{"cost", rounded(cost)}, {"what", what}, {"rank", rank}, {"stage", stage}});
    };
    add(2 * more, fmt::format("stage {} backward takes 18.9 ms, 2.9 more than the mean of the others", stage));
    add(more, fmt::format("stage {} forward takes 9.44 ms, 1.44 more than the mean of the others", stage));
    add(11, fmt::format("rank {} stood still for 11.0 ms before 3F4", run_.ranks - 1));
    for (int index = 0; index < 7; ++index)
      add(4.0 / (index + 1),
          fmt::format("the activation of microbatch {} was {:.2f} ms under way from rank {} to rank {}, 0.15 were planned", index, 0.4,
                      index % run_.ranks, (index + 1) % run_.ranks));
    profile["prediction"] = {{"duration", rounded(plan_.makespan + 6)},
                             {"bubble", rounded(plan_.bubble() * plan_.makespan)},
                             {"measured_duration", profile["timeline"]["duration"]},
                             {"measured_bubble", rounded(plan_.bubble() * plan_.makespan + 5.5)}};
  }

  struct OperationCost {
    const char* name;
    const char* kind;
    double flops, bytes;  // of one call
    double efficiency;    // fraction of the roofline
  };

  /// Forwards hide half of the time under way, backwards three quarters.
  Json exchanges() const {
    Json list = Json::array();
    const int count = run_.steps * run_.microbatches;
    for (int layer = 0; layer < 4; ++layer)
      for (const auto& [name, pass, exposed] :
           {std::tuple("dispatch", "F", 0.5), {"combine", "F", 0.5}, {"combine.dx", "I", 0.25}, {"dispatch.dx", "I", 0.25}})
        list.push_back({{"layer", layer},
                        {"name", fmt::format("layers.{}.mlp.{}", layer, name)},
                        {"pass", pass},
                        {"count", count},
                        {"bytes", count * 65'536},
                        {"under_way_ms", count * 0.5},
                        {"late_ms", count * 0.125},
                        {"exposed_ms", count * 0.5 * exposed},
                        {"hidden", 1 - exposed}});
    return list;
  }

  Json operations() const {
    const double rows = 512, hidden = 512, wide = 4 * hidden;
    const std::vector<OperationCost> forward{
        {"input_norm", "rms_norm", 4 * rows * hidden, 8 * rows * hidden, 0.7},
        {"self_attn.qkv_proj", "matmul", 6 * rows * hidden * hidden, 4 * (4 * rows * hidden + 3 * hidden * hidden), 0.82},
        {"self_attn.rotary", "rotary", 6 * rows * hidden, 16 * rows * hidden, 0.45},
        {"self_attn.attention", "attention", 4 * rows * rows * hidden, 4 * 4 * rows * hidden, 0.34},
        {"self_attn.o_proj", "matmul", 2 * rows * hidden * hidden, 4 * (2 * rows * hidden + hidden * hidden), 0.8},
        {"mlp.up_proj", "matmul", 4 * rows * hidden * wide, 4 * (rows * (hidden + 2 * wide) + 2 * hidden * wide), 0.88},
        {"mlp.swiglu", "swiglu", 5 * rows * wide, 12 * rows * wide, 0.6},
        {"mlp.down_proj", "matmul", 2 * rows * hidden * wide, 4 * (rows * (hidden + wide) + hidden * wide), 0.86},
        {"residual", "add", rows * hidden, 12 * rows * hidden, 0.75},
    };
    bool split = false;
    for (const Action& action : schedule_.ranks.front()) split = split || action.kind == ActionKind::input_gradient;
    Json list = Json::array();
    for (int stage = 0; stage < placement().stages(); ++stage)
      for (int layer = 0; layer < layers_of_a_stage; ++layer)
        for (const OperationCost& cost : forward) {
          const bool weights = std::string(cost.kind) == "matmul";
          add_operation(list, stage, layer, cost, "F", 1);
          if (split) add_operation(list, stage, layer, cost, "I", weights ? 1.02 : 1.4);
          if (split && weights) add_operation(list, stage, layer, cost, "W", 1.05);
          if (!split) add_operation(list, stage, layer, cost, "B", weights ? 2.05 : 1.4);
        }
    for (int stage = 0; stage < placement().stages(); ++stage)
      list.push_back({{"stage", stage},
                      {"layer", -1},
                      {"name", "adamw"},
                      {"kind", "optimizer"},
                      {"pass", "O"},
                      {"count", run_.steps},
                      {"ms", rounded(4.1 * run_.steps)},
                      {"flops", 12e6 * run_.steps},
                      {"bytes", 28e6 * run_.steps}});
    return list;
  }

  void add_operation(Json& list, int stage, int layer, const OperationCost& cost, const char* pass, double factor) const {
    const int count = run_.microbatches * run_.steps, number = stage * layers_of_a_stage + layer;
    const double flops = cost.flops * factor * count, bytes = cost.bytes * factor * count;
    const bool slow = placement().rank_of(StageId{stage}).value == slow_rank();
    const double seconds = std::max(flops / peak_flops, bytes / memory_bandwidth) /
                           (cost.efficiency * (slow ? 0.85 : 1) * (1 + 0.06 * std::sin(number * 7.3 + cost.efficiency * 40)));
    list.push_back({{"stage", stage},
                    {"layer", number},
                    {"name", fmt::format("layers.{}.{}", number, cost.name)},
                    {"kind", cost.kind},
                    {"pass", pass},
                    {"count", count},
                    {"ms", rounded(seconds * 1000)},
                    {"flops", flops},
                    {"bytes", bytes}});
  }

  Json memory() const {
    const double fixed = (48 + 48 + 96) * mebibyte, stash = 22 * mebibyte;
    Json list = Json::array();
    for (int rank = 0; rank < run_.ranks; ++rank) {
      Json timeline = Json::array();
      double most = 0;
      for (const MemoryStep& step : memory_curve(schedule_, plan_, RankId{rank})) {
        timeline.push_back({rounded(step.time), fixed + step.held * stash});
        most = std::max(most, step.held);
      }
      timeline.push_back({rounded(plan_.makespan + 6), fixed});
      const auto named = [](std::initializer_list<std::pair<std::string, double>> parts) {
        Json result = Json::array();
        for (const auto& [name, bytes] : parts) result.push_back(Json::array({name, bytes}));
        return result;
      };
      const Json sections = named({{"parameters", 48 * mebibyte},
                                   {"accumulators", 48 * mebibyte},
                                   {"moments", 96 * mebibyte},
                                   {"stash", most * stash},
                                   {"workspace", 0.4 * stash}});
      const Json at_peak = named({{"moments", 96 * mebibyte},
                                  {fmt::format("stash F→B of {:g} microbatches", most), most * stash},
                                  {"parameters", 48 * mebibyte},
                                  {"accumulators", 48 * mebibyte}});
      list.push_back({{"rank", rank},
                      {"planned_bytes", fixed + (most + 0.4) * stash},
                      {"resident_bytes", fixed + (most + 1.1) * stash},
                      {"timeline", timeline},
                      {"sections", sections},
                      {"at_peak", at_peak}});
    }
    return list;
  }

  SyntheticRun run_;
  Schedule schedule_;
  Costs costs_;
  Simulation plan_;
};

}  // namespace

Json synthetic_profile(const SyntheticRun& run) { return ProfileWriter(run).write(); }

}  // namespace millrace::tests
