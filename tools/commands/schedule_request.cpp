#include "tools/commands/schedule_request.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/schedule/hash.hpp"
#include "runtime/schedule/table.hpp"
#include "runtime/split.hpp"

namespace millrace::tools {
namespace {

constexpr const char* schedule_request_component = "millrace schedule";
constexpr long max_pairs = 1L << 27;  // of a stage and a microbatch: some gigabytes of memory

double number_of(const std::string& text, const std::string& option, double least) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  MILLRACE_CHECK(!text.empty() && *end == 0 && std::isfinite(number) && number >= least, ExitCode::usage, schedule_request_component,
                 "--{} \"{}\", expected a number from {}", option, text, least);
  return number;
}

struct Prices {
  double forward = 1, input_gradient = 1, weight_gradient = 1, latency = 0;
};

Prices prices_of(const Arguments& arguments) {
  Prices prices;
  const std::string text = arguments.text("costs");
  if (text.empty() && !arguments.given("costs")) return prices;  // `schedule check` has no costs; `auto` then searches with unit costs
  const auto parts = runtime::split(text, ',');
  MILLRACE_CHECK(parts.size() == 3 || parts.size() == 4, ExitCode::usage, schedule_request_component,
                 "--costs {}, expected F,I,W or F,I,W,c: times of a whole rank for one microbatch, and from rank to rank", text);
  constexpr double least = 1e-9;
  prices.forward = number_of(parts[0], "costs", least);
  prices.input_gradient = number_of(parts[1], "costs", least);
  prices.weight_gradient = number_of(parts[2], "costs", least);
  if (parts.size() == 4) prices.latency = number_of(parts[3], "costs", 0);
  if (arguments.given("link-latency")) prices.latency = number_of(arguments.text("link-latency"), "link-latency", 0);
  return prices;
}

// Parses --slow 2:1.3, which may be repeated or contain several entries separated by commas.
std::vector<double> slowdowns(const Arguments& arguments, int ranks) {
  std::vector<double> factors;
  for (const auto& option : arguments.texts("slow")) {
    for (const auto& entry : runtime::split(option, ',')) {
      const auto parts = runtime::split(entry, ':');
      MILLRACE_CHECK(parts.size() == 2, ExitCode::usage, schedule_request_component,
                     "--slow {}, expected RANK:FACTOR, such as 2:1.3 if rank 2 is 30 % slower", option);
      const double rank = number_of(parts[0], "slow", 0);
      MILLRACE_CHECK(rank < ranks && rank == std::floor(rank), ExitCode::usage, schedule_request_component,
                     "--slow {}: rank {}, expected one from 0 to {}", option, parts[0], ranks - 1);
      factors.resize(static_cast<std::size_t>(ranks), 1);
      factors[static_cast<std::size_t>(rank)] = number_of(parts[1], "slow", 1e-6);
    }
  }
  return factors;
}

// Parses --stall 2:10:35, or --stall 35, for which --seed selects the rank and the entry of its list.
std::vector<runtime::Stall> stalls(const runtime::Schedule& schedule, const Arguments& arguments, std::uint64_t seed) {
  std::vector<runtime::Stall> stalls;
  std::mt19937_64 draw(seed);
  for (const auto& option : arguments.texts("stall")) {
    const auto parts = runtime::split(option, ':');
    MILLRACE_CHECK(parts.size() == 1 || parts.size() == 3, ExitCode::usage, schedule_request_component,
                   "--stall {}, expected RANK:INDEX:TIME, such as 2:10:35 if action 10 of rank 2 takes 35 longer, or TIME alone", option);
    const auto place = [&](const char* what, std::size_t part, std::size_t count) {
      if (parts.size() == 1) return static_cast<std::size_t>(draw() % count);
      const double number = number_of(parts[part], "stall", 0);
      MILLRACE_CHECK(number < static_cast<double>(count) && number == std::floor(number), ExitCode::usage, schedule_request_component,
                     "--stall {}: {} {}, expected one from 0 to {}", option, what, parts[part], count - 1);
      return static_cast<std::size_t>(number);
    };
    const std::size_t rank = place("rank", 0, schedule.ranks.size());
    const std::size_t index = place("action", 1, schedule.ranks[rank].size());
    stalls.push_back({runtime::RankId(rank), static_cast<int>(index), number_of(parts.back(), "stall", 0)});
  }
  return stalls;
}

runtime::SearchInput search_input(int ranks, const Arguments& arguments) {
  const Prices prices = prices_of(arguments);
  runtime::SearchInput input;
  input.latency = prices.latency;
  const double limit = arguments.given("memory") ? number_of(arguments.text("memory"), "memory", 1) : ranks;
  input.ranks.assign(static_cast<std::size_t>(ranks), {prices.forward, prices.input_gradient, prices.weight_gradient, 1, 1, limit});
  return input;
}

}  // namespace

std::vector<Option> schedule_options() {
  return {{.name = "ranks", .value = "P", .help = "Of a built-in schedule: ranks of the pipeline."},
          {.name = "microbatches", .value = "M", .help = "Of a built-in schedule: microbatches per step."},
          {.name = "chunks", .value = "V", .help = "Of a built-in schedule: stages per rank. Default: what the schedule needs."},
          {.name = "group", .value = "N", .help = "Of interleaved (default: P) and interleaved-zb: microbatches per group."},
          {.name = "warmup", .value = "W", .help = "Of 1f1b: forwards of rank 0 ahead of its first backward. Default: P - 1."},
          {.name = "memory", .value = "X", .help = "Of auto: microbatches that a rank may hold. Default: P."}};
}

std::vector<Option> price_options(const std::string& costs) {
  return {{.name = "costs",
           .value = "F,I,W[,c]",
           .help = "Times of a whole rank for one microbatch, and c of a message from rank to rank.",
           .fallback = costs},
          {.name = "link-latency", .value = "X", .help = "Latency of a message from rank to rank, the same as c."},
          {.name = "slow", .value = "RANK:FACTOR", .help = "A slow rank. Several with commas, or by giving the option again."},
          {.name = "jitter", .value = "X", .help = "Multiply durations by exp(X normal - X^2/2)."},
          {.name = "stall",
           .value = "RANK:INDEX:X",
           .help = "This action of the rank's list, counted from 0, takes X longer; X alone: an action that --seed draws."},
          {.name = "seed", .value = "N", .help = "Random seed of --jitter and --stall.", .fallback = "0"}};
}

bool is_built_in(const std::string& word) {
  const auto& names = runtime::schedule_names();
  return std::find(names.begin(), names.end(), word) != names.end();
}

runtime::Schedule built_in(const std::string& name, const Arguments& arguments) {
  MILLRACE_CHECK(arguments.given("ranks") && arguments.given("microbatches"), ExitCode::usage, schedule_request_component,
                 "{} without --{}, expected --ranks P and --microbatches M, for example {} --ranks 4 --microbatches 8", name,
                 arguments.given("ranks") ? "microbatches" : "ranks", name);
  runtime::ScheduleRequest request;
  request.name = name;
  request.ranks = static_cast<int>(arguments.integer("ranks", 1, 1, 65536));
  request.microbatches = static_cast<int>(arguments.integer("microbatches", 1, 1, 1 << 20));
  request.chunks = static_cast<int>(arguments.integer("chunks", runtime::usual_chunks(name), 1, 1024));
  request.group = static_cast<int>(arguments.integer("group", 0, 0, 1 << 20));
  if (arguments.given("warmup"))
    request.warmup = runtime::one_f_one_b_warmup(request.ranks, static_cast<int>(arguments.integer("warmup", 0, 0, 1 << 20)));
  MILLRACE_CHECK(1L * request.ranks * request.chunks <= max_pairs / request.microbatches, ExitCode::usage, schedule_request_component,
                 "{} ranks x {} chunks x {} microbatches, expected {} at most", request.ranks, request.chunks, request.microbatches,
                 max_pairs);
  MILLRACE_CHECK(name == "auto" || !arguments.given("memory"), ExitCode::usage, schedule_request_component,
                 "--memory with {}, expected auto, which searches within that limit", name);
  if (name == "auto") request.search = search_input(request.ranks, arguments);
  return runtime::make_schedule(request);
}

/// The nearest name, or all of them if none is near.
std::string meant_or_all(const std::string& word) {
  const auto& names = runtime::schedule_names();
  const std::string meant = did_you_mean(word, names);
  return meant.empty() ? fmt::format("; built in are {}", fmt::join(names, ", ")) : meant;
}

std::string read_table(const std::string& path) {
  MILLRACE_CHECK(runtime::kind_of(path) != runtime::PathKind::missing, ExitCode::config, schedule_request_component,
                 "{} is neither a built-in schedule nor a file{}", path, meant_or_all(path));
  return runtime::read_text_file(path, std::uint64_t{256} << 20, ExitCode::config);
}

void refuse_sizes(const std::string& path, const Arguments& arguments) {
  for (const auto& option : schedule_options())
    MILLRACE_CHECK(!arguments.given(option.name), ExitCode::usage, schedule_request_component,
                   "--{} with the table {}, which has it; expected it with a built-in schedule only", option.name, path);
}

runtime::Schedule schedule_of(const std::string& word, const Arguments& arguments) {
  if (is_built_in(word)) return built_in(word, arguments);
  const std::string text = read_table(word);
  refuse_sizes(word, arguments);
  return runtime::parse_table(text, word);
}

runtime::Costs costs_of(const runtime::Schedule& schedule, const Arguments& arguments) {
  const Prices prices = prices_of(arguments);
  runtime::Costs costs;
  costs.stages = runtime::uniform_costs(schedule.placement, prices.forward, prices.input_gradient, prices.weight_gradient);
  if (prices.latency > 0) costs.links = runtime::uniform_links(schedule.placement, prices.latency);
  costs.noise.slowdown = slowdowns(arguments, schedule.placement.ranks());
  if (arguments.given("jitter")) costs.noise.jitter = number_of(arguments.text("jitter"), "jitter", 0);
  costs.noise.seed = static_cast<std::uint64_t>(arguments.integer("seed", 0, 1L << 62));
  costs.noise.stalls = stalls(schedule, arguments, costs.noise.seed);
  MILLRACE_CHECK(!arguments.given("seed") || arguments.given("jitter") || arguments.given("stall"), ExitCode::usage,
                 schedule_request_component, "--seed without --jitter or --stall, expected one of them");
  return costs;
}

std::string describe_costs(const Arguments& arguments) {
  const Prices prices = prices_of(arguments);
  std::string text =
      fmt::format("F {:g}, I {:g}, W {:g}, link {:g}", prices.forward, prices.input_gradient, prices.weight_gradient, prices.latency);
  for (const auto& slow : arguments.texts("slow")) text += ", slow " + slow;
  for (const auto& stall : arguments.texts("stall")) text += ", stall " + stall;
  if (arguments.given("jitter")) text += ", jitter " + arguments.text("jitter");
  if (arguments.given("jitter") || arguments.given("seed")) text += " seed " + arguments.text("seed");
  return text;
}

std::string describe(const runtime::Schedule& schedule) {
  std::size_t actions = 0;
  for (const auto& list : schedule.ranks) actions += list.size();
  const int chunks = schedule.placement.chunks();
  return fmt::format("{}: {}, {} per rank (placement {}), {}, {}, hash {:016x}", schedule.name, counted(schedule.ranks.size(), "rank"),
                     counted(chunks, "stage"), schedule.placement.name(), counted(schedule.microbatches, "microbatch"),
                     counted(actions, "action"), runtime::content_hash(schedule));
}

}  // namespace millrace::tools
