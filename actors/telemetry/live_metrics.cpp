#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "actors/telemetry/live_view.hpp"
#include "actors/telemetry/step_fields.hpp"

namespace millrace::actors {
namespace {

/// Prometheus' text format: a family's HELP and TYPE, then its samples. Base units; counters end in _total. Written here: prometheus-cpp
/// keeps a registry of live counters, while this is one text of a snapshot.
class Exposition {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(out(), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(double value, std::string_view labels = "") {
    text_ += name_;
    if (!labels.empty()) fmt::format_to(out(), "{{{}}}", labels);
    if (std::isfinite(value)) {
      fmt::format_to(out(), " {}\n", value);
    } else {
      text_ += std::isnan(value) ? " NaN\n" : value > 0 ? " +Inf\n" : " -Inf\n";
    }
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    family(name, "gauge", help);
    sample(value);
  }
  void counter(std::string_view name, std::string_view help, double value) {
    family(name, "counter", help);
    sample(value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }
  std::string text_, name_;
};

/// Only these three characters must be escaped in a label's value.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\n') {
      text += "\\n";
      continue;
    }
    if (letter == '"' || letter == '\\') text += '\\';
    text += letter;
  }
  return text;
}

std::string rank_label(std::size_t rank) { return fmt::format("rank=\"{}\"", rank); }

void run_metrics(Exposition& text, const LiveView& view) {
  const auto& run = view.run;
  text.family("millrace_run_info", "gauge", "1, with labels that describe the run.");
  text.sample(1, fmt::format("directory=\"{}\",dtype=\"{}\",schedule=\"{}\",processes=\"{}\"", escaped(run.directory), escaped(run.dtype),
                             escaped(run.schedule), run.processes));
  text.gauge("millrace_ranks", "Ranks of the pipeline.", run.ranks);
  text.gauge("millrace_up_seconds", "Time since this start of the run.", view.up_seconds);
  text.gauge("millrace_steps_planned", "Length of the run.", static_cast<double>(run.steps));
  text.gauge("millrace_step", "Completed steps, including those before a resume.",
             static_cast<double>(view.totals.last ? view.totals.last->step : run.first_step));
  text.counter("millrace_steps_total", "Steps done since this start of the run.", static_cast<double>(view.totals.steps));
  text.counter("millrace_tokens_total", "Tokens of the steps since this start of the run.", static_cast<double>(view.totals.tokens));
  text.counter("millrace_step_seconds_total", "Time of the steps since this start of the run.", view.totals.seconds);
}

void terms_of(Exposition& text, const char* name, const char* help, const std::vector<runtime::StepLoss::Named>& terms) {
  if (terms.empty()) return;
  text.family(name, "gauge", help);
  for (const auto& term : terms) text.sample(term.value, fmt::format("term=\"{}\"", escaped(term.name)));
}

void expert_metrics(Exposition& text, const std::vector<runtime::ExpertLoad>& experts) {
  if (experts.empty()) return;
  const auto each = [&](const char* name, const char* help, auto value) {
    text.family(name, "gauge", help);
    for (const auto& load : experts) text.sample(value(load), fmt::format("router=\"{}\"", escaped(load.scope)));
  };
  each("millrace_expert_entropy_nats", "Entropy of a router's choices in the last step.", [](const auto& load) { return load.entropy(); });
  each("millrace_expert_evenness_ratio", "That entropy, as a fraction of the logarithm of the number of experts.",
       [](const auto& load) { return load.evenness(); });
  each("millrace_expert_hottest_share_ratio", "Share of the expert that was chosen most often.",
       [](const auto& load) { return load.hottest_share(); });
  each("millrace_expert_dropped_tokens", "Choices of the last step that exceeded the capacity of their expert.",
       [](const auto& load) { return static_cast<double>(load.dropped); });
  each("millrace_expert_more_rounds", "Rounds of the last step's exchanges beside the first of each microbatch (experts.capacity).",
       [](const auto& load) { return static_cast<double>(load.more_rounds); });
}

void source_metrics(Exposition& text, const runtime::DataProgress& data) {
  if (data.sources.empty()) return;
  const auto each = [&](const char* name, const char* help, auto value) {
    text.family(name, "gauge", help);
    for (const auto& source : data.sources) text.sample(value(source), fmt::format("source=\"{}\"", escaped(source.name)));
  };
  each("millrace_source_tokens", "Tokens that the run has read of a source of its data, including those before a resume.",
       [](const auto& source) { return static_cast<double>(source.tokens); });
  each("millrace_source_epochs", "How often it has read that source.", [](const auto& source) { return source.epochs; });
}

void last_step_metrics(Exposition& text, const LiveView& view) {
  if (!view.totals.last) return;
  const auto& last = *view.totals.last;
  text.gauge("millrace_loss", "Mean loss of the last step over its valid targets; the cross-entropy is in nats.", last.loss);
  terms_of(text, "millrace_loss_term", "A term of the loss of the last step, by name, times its weight.", last.terms);
  expert_metrics(text, last.experts);
  source_metrics(text, last.data);
  text.gauge("millrace_gradient_norm", "Norm of all gradients of the last step, before clipping.", last.gradient_norm);
  text.gauge("millrace_learning_rate", "Learning rate of the last step.", last.learning_rate);
  text.gauge("millrace_last_step_seconds", "Time of the last step.", last.seconds);
  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (!step_metrics[i].prometheus.empty() && is_shown(step_metrics[i], last.metrics))
      text.gauge(step_metrics[i].prometheus, step_metrics[i].help, last.metrics[i]);
  if (last.device_total > 0) {
    text.gauge("millrace_device_memory_used_bytes", "Memory in use on the fullest GPU, by all processes.",
               static_cast<double>(last.device_used));
    text.gauge("millrace_device_memory_total_bytes", "Total memory of that GPU.", static_cast<double>(last.device_total));
  }
  if (const auto utilization = flops_utilization(last, view.run.peak_flops))
    text.gauge("millrace_flops_utilization_ratio",
               "Model FLOPs utilisation of the last step: its model FLOP/s divided by the peak of its cores.", *utilization);
  if (!view.totals.held_out.empty())
    text.gauge("millrace_evaluation_loss", "Loss of the last evaluation on the held-out files; the cross-entropy is in nats per token.",
               view.totals.held_out.back().loss);
  terms_of(text, "millrace_evaluation_loss_term", "A term of the loss of the last evaluation, by name, times its weight.",
           view.totals.held_out_terms);
}

void checkpoint_metrics(Exposition& text, const LiveTotals::Checkpoints& checkpoints) {
  text.counter("millrace_checkpoints_committed_total", "Checkpoints committed since this start of the run.",
               static_cast<double>(checkpoints.committed));
  text.counter("millrace_checkpoints_failed_total", "Checkpoints that could not be written since this start of the run.",
               static_cast<double>(checkpoints.failed));
  text.gauge("millrace_checkpoint_problems",
             "Problems of the last checkpoint: it was not written, or old ones or the journal could not be deleted or written.",
             static_cast<double>(checkpoints.problems.size()));
}

void straggler_metrics(Exposition& text, const LiveView& view) {
  if (!view.totals.straggler) return;
  const Straggler& straggler = *view.totals.straggler;
  text.family("millrace_straggler_slower_ratio", "gauge",
              "How much longer the slowest copy's rank computes than those at its position in the other copies.");
  text.sample(straggler.slower, fmt::format("copy=\"{}\",{}", straggler.copy, rank_label(static_cast<std::size_t>(straggler.rank))));
}

void rank_times(Exposition& text, const LiveView& view) {
  text.family("millrace_rank_seconds_total", "counter", "Where a rank's time went, by kind, since this start of the run.");
  for (std::size_t rank = 0; rank < view.ranks.size(); ++rank) {
    const auto times = rank < view.totals.ranks.size() ? view.totals.ranks[rank] : StepTimes();
    const auto sample = [&](const char* kind, std::int64_t nanoseconds) {
      text.sample(static_cast<double>(nanoseconds) * 1e-9, fmt::format("{},kind=\"{}\"", rank_label(rank), kind));
    };
    sample("compute", times.compute);
    sample("bubble", times.bubble);
    sample("wait", times.wait);
    sample("exchange", times.exchange);
    sample("data", times.data);
    sample("reduction", times.reduction);
    sample("other", times.other());
  }
}

void rank_gauges(Exposition& text, const LiveView& view) {
  const auto each = [&](const char* name, const char* help, auto value) {
    text.family(name, "gauge", help);
    for (std::size_t rank = 0; rank < view.ranks.size(); ++rank) text.sample(value(view.ranks[rank]), rank_label(rank));
  };
  each("millrace_rank_up", "1 if the rank has reported, else 0.", [](const LiveRank& rank) { return rank.known ? 1.0 : 0.0; });
  each("millrace_rank_step", "The step that the rank is in, counted from 1; 0 before the first.",
       [](const LiveRank& rank) { return static_cast<double>(std::max<std::int64_t>(0, rank.progress.step)); });
  each("millrace_rank_action_seconds", "Time since the rank began its current activity.",
       [](const LiveRank& rank) { return rank.seconds; });
  each("millrace_rank_heard_seconds", "Time since the rank's last report.", [](const LiveRank& rank) { return rank.heard_seconds; });
  text.family("millrace_rank_queue_tokens", "gauge", "Boundaries in the rings of a rank: arrived and not released.");
  for (std::size_t rank = 0; rank < view.ranks.size(); ++rank) {
    text.sample(view.ranks[rank].progress.activations.tokens, rank_label(rank) + ",kind=\"activation\"");
    text.sample(view.ranks[rank].progress.gradients.tokens, rank_label(rank) + ",kind=\"gradient\"");
  }
  text.family("millrace_rank_queue_slots", "gauge", "Slots of the rings of a rank.");
  for (std::size_t rank = 0; rank < view.ranks.size(); ++rank) {
    text.sample(view.ranks[rank].progress.activations.slots, rank_label(rank) + ",kind=\"activation\"");
    text.sample(view.ranks[rank].progress.gradients.slots, rank_label(rank) + ",kind=\"gradient\"");
  }
}

}  // namespace

std::string metrics_text(const LiveView& view) {
  Exposition text;
  run_metrics(text, view);
  last_step_metrics(text, view);
  checkpoint_metrics(text, view.totals.checkpoints);
  straggler_metrics(text, view);
  rank_times(text, view);
  rank_gauges(text, view);
  return text.take();
}

}  // namespace millrace::actors
