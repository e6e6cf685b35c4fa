#include "tools/commands/profile_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/profile/profile_check.hpp"
#include "runtime/profile/profile_json.hpp"
#include "runtime/profile/report/report_page.hpp"
#include "runtime/profile/trace_check.hpp"
#include "runtime/profile/trace_json.hpp"
#include "runtime/units.hpp"

namespace millrace::tools {
namespace {

using runtime::Cause;
using runtime::cause_count;
using runtime::milliseconds;

constexpr std::size_t max_lines = 10;
constexpr std::uint64_t max_file_bytes = std::uint64_t{2} << 30;  // of a file that is checked
constexpr std::array<const char*, cause_count> columns = {"F",         "I",         "W",         "B",    "optimizer",
                                                          "bubble",    "imbalance", "transfer",  "data", "checkpoint",
                                                          "transport", "exchange",  "reduction", "other"};

std::string print_head(const runtime::Profile& profile) {
  const auto& measured = profile.measured;
  const auto& run = measured.run;
  std::string text = fmt::format("profile   {} | {}, {} in {}{} | {} | {} from step {}\n",
                                 run.kind == "training"
                                     ? fmt::format("{}, {} parameters", run.model, runtime::count_text(static_cast<double>(run.parameters)))
                                     : run.kind,
                                 measured.schedule.name, counted(measured.schedule.ranks.size(), "rank"), counted(run.processes, "process"),
                                 run.layout.empty() ? "" : " | " + run.layout, counted(measured.schedule.microbatches, "microbatch"),
                                 counted(profile.steps.size(), "step"), profile.steps.front().view.step.value + 1);
  for (const auto& clock : measured.clocks) {
    if (clock.pings == 0) continue;
    const auto microseconds = [](std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; };
    text += clock.shared
                ? fmt::format("clock     process {} on {}: that of process 0 ({:+.1f} us by {} pings, within {:.1f} us)\n", clock.process,
                              clock.host, microseconds(clock.measured), clock.pings, microseconds(clock.round_trip) / 2)
                : fmt::format("clock     process {} on {}: {:+.1f} us to process 0, within {:.1f} us, by {} pings\n", clock.process,
                              clock.host, microseconds(clock.offset), microseconds(clock.bound), clock.pings);
  }
  return text;
}

/// Sums over the steps, by rank; the last entry is the sum over all ranks.
std::vector<runtime::Attribution> sums_of(const runtime::Profile& profile) {
  const std::size_t ranks = profile.measured.schedule.ranks.size();
  std::vector<runtime::Attribution> sums(ranks + 1);
  for (const auto& step : profile.steps) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (auto* sum : {&sums[rank], &sums[ranks]}) {
        for (std::size_t cause = 0; cause < cause_count; ++cause) sum->parts[cause] += step.ranks[rank].parts[cause];
        sum->wall += step.ranks[rank].wall;
      }
    }
  }
  return sums;
}

/// One line per rank, in percent of its time; causes that took no time on any rank have no column.
std::string print_causes(const runtime::Profile& profile) {
  const auto sums = sums_of(profile);
  std::string head = fmt::format("{:>5} {:>9}", "rank", "stages"), lines;
  std::vector<std::size_t> shown;
  for (std::size_t cause = 0; cause < cause_count; ++cause) {
    if (sums.back().parts[cause] == 0) continue;
    shown.push_back(cause);
    head += fmt::format(" {:>10}", columns[cause]);
  }
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    const bool all = rank + 1 == sums.size();
    std::vector<int> stages;
    if (!all) {
      for (const auto stage : profile.measured.schedule.placement.stages_of(runtime::RankId(rank))) stages.push_back(stage.value);
    }
    lines += fmt::format("{:>5} {:>9}", all ? "all" : std::to_string(rank), all ? "" : fmt::format("{}", fmt::join(stages, ",")));
    for (const std::size_t cause : shown)
      lines += fmt::format(" {:>9.1f}%", 100 * static_cast<double>(sums[rank].parts[cause]) / static_cast<double>(sums[rank].wall));
    lines += '\n';
  }
  return fmt::format("\n{} ms per step, by cause\n{}\n{}", fmt::format("{:.1f}", profile.prediction.measured_duration), head, lines);
}

std::string print_prediction(const runtime::Profile& profile) {
  const auto& prediction = profile.prediction;
  const double whole = prediction.measured_duration;
  std::string text =
      fmt::format("\nstep       measured {:.2f} ms, planned {:.2f} ms with {}\n", whole, prediction.duration, prediction.source);
  text +=
      fmt::format("idle       measured {:.2f} ms ({:.1f}%), planned {:.2f} ms ({:.1f}%) per rank and step\n", prediction.measured_bubble,
                  100 * prediction.measured_bubble / whole, prediction.bubble, 100 * prediction.bubble / prediction.duration);
  if (!profile.measured.doubt.empty()) text += fmt::format("doubt      {}\n", profile.measured.doubt);
  if (prediction.promised_duration)
    text += fmt::format("plan       pipeline.costs had promised {:.2f} ms\n", *prediction.promised_duration);
  return text;
}

std::string print_layout_cost(const runtime::Profile& profile) {
  std::string text;
  for (const auto& line : runtime::layout_cost_text(profile))
    text += fmt::format("{}{}\n", text.empty() ? "\nlayout     " : "           ", line);
  return text;
}

std::string print_lateness(const runtime::Profile& profile) {
  if (profile.lateness.empty()) return "\nlate      nothing that costs 0.1 % of a step or more\n";
  std::string text = "\nlate, by cost per step\n";
  for (const auto& late : profile.lateness)
    text += fmt::format("{:>9.2f} ms {:>5.1f}%  {}\n", late.cost, 100 * late.cost / profile.prediction.measured_duration, late.what);
  return text;
}

std::string print_machine(const runtime::Measured& measured) {
  const auto& machine = measured.machine;
  if (machine.peak_flops <= 0) return "";
  if (machine.memory_bandwidth <= 0) return fmt::format("; a GPU does {:.1f} TFLOP/s by its data sheet", machine.peak_flops * 1e-12);
  return fmt::format("; a rank's cores do {:.1f} GFLOP/s and {:.1f} GB/s", machine.peak_flops * 1e-9, machine.memory_bandwidth * 1e-9);
}

std::string percent_of(double rate, double best) { return best > 0 ? fmt::format("{:.1f}%", 100 * rate / best) : "-"; }

/// Milliseconds are means per action.
std::string print_device_actions(const runtime::Profile& profile) {
  const auto& measured = profile.measured;
  if (measured.device_actions.empty()) return "";
  std::string text = fmt::format("\nactions on the GPU, and the host's time to queue them\n{:>6} {:>5} {:>8} {:>10} {:>10}\n", "stage",
                                 "pass", "actions", "device ms", "host ms");
  std::vector<std::int64_t> device(measured.launch_gaps.size(), 0);
  for (const auto& action : measured.device_actions) {
    device[measured.schedule.placement.rank_of(action.stage).index()] += action.device;
    const auto count = static_cast<double>(action.count);
    text += fmt::format("{:>6} {:>5} {:>8} {:>10.3f} {:>10.3f}\n", action.stage, action.pass, action.count,
                        milliseconds(action.device) / count, milliseconds(action.host) / count);
  }
  std::vector<std::string> shares;
  for (std::size_t rank = 0; rank < device.size(); ++rank)
    shares.push_back(
        fmt::format("rank {} {}", rank, percent_of(static_cast<double>(measured.launch_gaps[rank]), static_cast<double>(device[rank]))));
  return text + fmt::format("launch gaps, of the device's time: {}\n", fmt::join(shares, ", "));
}

/// One line per process and GPU.
std::string print_device_memory(const runtime::Profile& profile) {
  const auto& measured = profile.measured;
  std::map<std::pair<int, int>, std::vector<std::size_t>> ranks;  // by process and GPU
  for (std::size_t rank = 0; rank < measured.memory.size(); ++rank)
    if (measured.memory[rank].on_device >= 0) ranks[{measured.process_of_rank.at(rank), measured.memory[rank].on_device}].push_back(rank);
  std::string text;
  for (const auto& [where, of] : ranks) {
    const auto& memory = measured.memory[of.front()];
    const auto bytes = [](std::int64_t count) { return runtime::bytes_text(static_cast<std::uint64_t>(count)); };
    text += fmt::format(
        "{} cuda:{} of process {}, {} {}: planned {}, measured {}, planned / measured {}\n", text.empty() ? "\ndevice memory\n" : "",
        where.second, where.first, noun_for(of.size(), "rank"), fmt::join(of, ","), bytes(memory.device_planned), bytes(memory.device),
        memory.device > 0 ? fmt::format("{:.2f}", static_cast<double>(memory.device_planned) / static_cast<double>(memory.device)) : "-");
  }
  return text;
}

std::string print_operations(const runtime::Profile& profile) {
  const auto& machine = profile.measured.machine;
  auto operations = profile.measured.operations;
  if (operations.empty()) return "";
  std::stable_sort(operations.begin(), operations.end(), [](const auto& a, const auto& b) { return a.nanoseconds > b.nanoseconds; });
  std::int64_t all = 0;
  for (const auto& operation : operations) all += operation.nanoseconds;
  std::string text = fmt::format("\noperations: {} took {:.1f} ms of compute per step{}\n", operations.size(),
                                 milliseconds(all) / static_cast<double>(profile.steps.size()), print_machine(profile.measured));
  text += fmt::format("{:>6} {:>7} {:>8} {:>5} {:>9} {:>10}  {}\n", "share", "ms", "stage", "pass", "of peak", "of memory", "operation");
  for (std::size_t i = 0; i < std::min(max_lines, operations.size()); ++i) {
    const auto& operation = operations[i];
    const double seconds = static_cast<double>(operation.nanoseconds) * 1e-9;
    text += fmt::format("{:>5.1f}% {:>7.3f} {:>8} {:>5} {:>9} {:>10}  {} ({})\n",
                        100 * static_cast<double>(operation.nanoseconds) / static_cast<double>(all),
                        milliseconds(operation.nanoseconds) / static_cast<double>(operation.count), operation.stage, operation.pass,
                        percent_of(operation.flops / seconds, machine.peak_flops),
                        percent_of(operation.bytes / seconds, machine.memory_bandwidth), operation.name, operation.kind);
  }
  return text;
}

/// What the products of experts achieve together, and how evenly each router used its experts, over the profiled steps.
std::string print_experts(const runtime::Profile& profile) {
  const auto& measured = profile.measured;
  if (measured.experts.empty()) return "";
  std::int64_t all = 0, grouped = 0;
  double flops = 0;
  for (const auto& operation : measured.operations) {
    all += operation.nanoseconds;
    if (!operation.kind.starts_with("grouped_linear")) continue;
    grouped += operation.nanoseconds;
    flops += operation.flops;
  }
  std::string text = "\nexperts\n";
  if (grouped > 0)
    text +=
        fmt::format("grouped products: {:.1f}% of the compute, {} of peak\n", 100 * static_cast<double>(grouped) / static_cast<double>(all),
                    percent_of(flops / (static_cast<double>(grouped) * 1e-9), measured.machine.peak_flops));
  for (const auto& load : measured.experts)
    text += fmt::format("{:<12} entropy {:.3f} nats, {:.1f}% of an even choice; hottest expert {} of {} with {:.1f}%; {} dropped{}\n",
                        load.scope, load.entropy(), 100 * load.evenness(), load.hottest(), load.counts.size(), 100 * load.hottest_share(),
                        load.dropped, load.more_rounds > 0 ? fmt::format("; {} more rounds of exchanges", load.more_rounds) : "");
  return text;
}

/// The exchanges with most time that no compute has hidden; means per step, over all ranks.
std::string print_exchanges(const runtime::Profile& profile) {
  auto exchanges = profile.exchanges;
  if (exchanges.empty()) return "";
  const auto steps = static_cast<double>(profile.steps.size());
  runtime::ExchangeTime all;
  for (const auto& exchange : exchanges) {
    all.bytes += exchange.bytes;
    all.under_way += exchange.under_way;
    all.exposed += exchange.exposed;
  }
  std::string text = fmt::format("\nexchanges: {:.2f} MiB sent per step, {:.1f}% of the time under way hidden by compute\n",
                                 static_cast<double>(all.bytes) / steps / (1 << 20), 100 * all.hidden());
  text += fmt::format("{:>8} {:>5} {:>10} {:>12} {:>9} {:>10} {:>7}  {}\n", "per step", "pass", "KiB sent", "under way ms", "late ms",
                      "exposed ms", "hidden", "exchange");
  std::ranges::stable_sort(exchanges, std::greater(), &runtime::ExchangeTime::exposed);
  for (const auto& exchange : exchanges | std::views::take(max_lines))
    text +=
        fmt::format("{:>8.1f} {:>5} {:>10.1f} {:>12.3f} {:>9.3f} {:>10.3f} {:>6.1f}%  {}\n", static_cast<double>(exchange.count) / steps,
                    exchange.pass, static_cast<double>(exchange.bytes) / steps / 1024, milliseconds(exchange.under_way) / steps,
                    milliseconds(exchange.late) / steps, milliseconds(exchange.exposed) / steps, 100 * exchange.hidden(), exchange.name);
  return text;
}

/// What replicas transferred, by kind; means per step, over all ranks. What is not hidden is under reduction among the causes.
std::string print_transfers(const runtime::Profile& profile) {
  if (profile.transfers.empty()) return "";
  const auto steps = static_cast<double>(profile.steps.size());
  std::string text = "\ntransfers between replicas\n";
  text += fmt::format("{:>10} {:>8} {:>10} {:>12}  {}\n", "", "per step", "KiB sent", "under way ms", "stage");
  for (const auto& transfer : profile.transfers)
    text += fmt::format("{:>10} {:>8.1f} {:>10.1f} {:>12.3f}  {}{}\n",
                        transfer.kind == runtime::TransferKind::reduction ? "reduction" : "gather",
                        static_cast<double>(transfer.count) / steps, static_cast<double>(transfer.bytes) / steps / 1024,
                        milliseconds(transfer.under_way) / steps, transfer.stage, transfer.experts ? ", experts" : "");
  return text;
}

std::string print_rates(const runtime::Profile& profile) {
  const auto& run = profile.measured.run;
  const double seconds = profile.prediction.measured_duration * 1e-3;
  if (run.flops_per_step <= 0) return "";
  const double peak = profile.measured.machine.job_peak_flops;
  std::string text = fmt::format(
      "\n{}{} tokens/s", peak > 0 ? fmt::format("{:.1f}% model FLOPs utilisation, ", 100 * run.flops_per_step / seconds / peak) : "",
      runtime::count_text(static_cast<double>(run.tokens_per_step) / seconds));
  for (std::size_t rank = 0; rank < profile.memory.size(); ++rank) {
    const auto bytes = [](std::int64_t count) { return runtime::bytes_text(static_cast<std::uint64_t>(count)); };
    text += fmt::format("{}rank {} {} of {}", rank == 0 ? " | memory alive at the peak: " : ", ", rank, bytes(profile.memory[rank].peak),
                        bytes(profile.measured.memory[rank].planned));
  }
  return text + "\n";
}

std::string joined(const std::string& file, const std::vector<std::string>& problems) {
  std::string text;
  for (const auto& problem : problems) text += fmt::format("{}: {}\n", file, problem);
  return text;
}

}  // namespace

std::string print(const runtime::Profile& profile) {
  return print_head(profile) + print_causes(profile) + print_prediction(profile) + print_layout_cost(profile) + print_lateness(profile) +
         print_operations(profile) + print_experts(profile) + print_exchanges(profile) + print_transfers(profile) +
         print_device_actions(profile) + print_device_memory(profile) + print_rates(profile);
}

std::string write_profile(const runtime::Profile& profile, const std::string& folder) {
  const auto json = runtime::profile_json(profile);
  const auto trace = runtime::trace_json(profile);
  runtime::make_directories(folder);
  runtime::write_text_file(runtime::join_path(folder, "profile.json"), json);
  runtime::write_text_file(runtime::join_path(folder, "trace.json"), trace);
  runtime::write_text_file(runtime::join_path(folder, "report.html"), runtime::report_page(json));
  return joined("profile.json", runtime::profile_problems(json)) + joined("trace.json", runtime::trace_problems(trace));
}

std::string check_profile(const std::string& folder) {
  const auto text = [&](const char* name) {
    MILLRACE_CHECK(runtime::kind_of(runtime::join_path(folder, name)) != runtime::PathKind::missing, ExitCode::usage, "millrace profile",
                   "{} has no {}, expected the folder of a profile", folder, name);
    return runtime::read_text_file(runtime::join_path(folder, name), max_file_bytes, ExitCode::usage);
  };
  const auto problems = joined("profile.json", runtime::profile_problems(text("profile.json")));
  return problems + joined("trace.json", runtime::trace_problems(text("trace.json")));
}

}  // namespace millrace::tools
