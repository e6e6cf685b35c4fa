#include "actors/telemetry/step_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace millrace::actors {
namespace {

/// value(entry) of every entry, as a list.
template <class Entry, class Value>
auto list_of(const std::vector<Entry>& entries, Value value) {
  std::vector<decltype(value(entries.front()))> list;
  for (const Entry& entry : entries) list.push_back(value(entry));
  return list;
}

template <class Entry>
using Number = std::pair<const char*, double (*)(const Entry&)>;

constexpr Number<runtime::ExpertLoad> expert_numbers[] = {
    {"expert_entropy", [](const runtime::ExpertLoad& load) { return load.entropy(); }},
    {"expert_evenness", [](const runtime::ExpertLoad& load) { return load.evenness(); }},
    {"hottest_share", [](const runtime::ExpertLoad& load) { return load.hottest_share(); }},
};

constexpr Number<runtime::LayerActivation> activation_numbers[] = {
    {"activ_fraction_zero", [](const runtime::LayerActivation& layer) { return layer.fraction_zero; }},
    {"activ_mean", [](const runtime::LayerActivation& layer) { return layer.mean; }},
    {"activ_stdev", [](const runtime::LayerActivation& layer) { return layer.deviation; }},
};

}  // namespace

std::optional<double> flops_utilization(const StepRecord& record, double peak_flops) {
  if (peak_flops <= 0) return std::nullopt;
  return record.flops / record.seconds / peak_flops;
}

void add_data(const runtime::DataProgress& data, runtime::MetricsRecord& line) {
  if (data.sources.empty()) return;
  line.fields.emplace_back("tokens_seen", data.tokens);
  if (data.sources.size() == 1) return static_cast<void>(line.fields.emplace_back("epoch", data.sources.front().epochs));
  line.fields.emplace_back("sources", list_of(data.sources, [](const auto& source) { return source.name; }));
  line.fields.emplace_back("source_tokens", list_of(data.sources, [](const auto& source) { return source.tokens; }));
  line.fields.emplace_back("source_epochs", list_of(data.sources, [](const auto& source) { return source.epochs; }));
}

void add_fields(const StepRecord& record, runtime::MetricsRecord& line) {
  const auto& experts = record.experts;
  if (!experts.empty()) {
    line.fields.emplace_back("routers", list_of(experts, [](const auto& load) { return load.scope; }));
    line.fields.emplace_back("expert_tokens", list_of(experts, [](const auto& load) { return load.counts; }));
    for (const auto& [name, value] : expert_numbers) line.fields.emplace_back(name, list_of(experts, value));
    line.fields.emplace_back("hottest_expert",
                             list_of(experts, [](const auto& load) { return static_cast<std::int64_t>(load.hottest()); }));
    line.fields.emplace_back("dropped_tokens", list_of(experts, [](const auto& load) { return load.dropped; }));
  }
  if (record.activations.empty()) return;
  for (const auto& [name, value] : activation_numbers) line.fields.emplace_back(name, list_of(record.activations, value));
}

void add_rounds(const StepRecord& record, runtime::MetricsRecord& line) {
  const auto more = list_of(record.experts, [](const auto& load) { return load.more_rounds; });
  if (std::ranges::any_of(more, [](std::int64_t rounds) { return rounds > 0; })) line.fields.emplace_back("more_rounds", more);
}

std::string rounds_warning(const StepRecord& record) {
  if (record.experts.empty()) return {};
  const auto most = std::ranges::max_element(record.experts, {}, &runtime::ExpertLoad::more_rounds);
  if (most->more_rounds == 0) return {};
  return fmt::format(
      "step {}: {} rounds of exchanges beside the first of each microbatch in {}: some owners of experts got more rows than they have room "
      "for "
      "(experts.capacity). Expert {} of {} has {:.1f}% of the choices. The numbers are the same and the step is slower. This is not "
      "repeated; "
      "metrics.jsonl has more_rounds of all steps",
      record.step, most->more_rounds, most->scope, most->hottest(), most->counts.size(), 100 * most->hottest_share());
}

void add_scalars(const StepRecord& record, runtime::EventScalars& scalars) {
  const auto& sources = record.data.sources;
  if (!sources.empty()) scalars.emplace_back("data/tokens_seen", static_cast<double>(record.data.tokens));
  if (sources.size() == 1) scalars.emplace_back("data/epoch", sources.front().epochs);
  for (std::size_t i = 0; sources.size() > 1 && i < sources.size(); ++i) {
    scalars.emplace_back("data/tokens/" + sources[i].name, static_cast<double>(sources[i].tokens));
    scalars.emplace_back("data/epochs/" + sources[i].name, sources[i].epochs);
  }
  for (const auto& [name, value] : expert_numbers)
    for (const auto& load : record.experts) scalars.emplace_back(fmt::format("{}/{}", name, load.scope), value(load));
  for (const auto& load : record.experts)
    scalars.emplace_back(fmt::format("dropped_tokens/{}", load.scope), static_cast<double>(load.dropped));
  for (const auto& load : record.experts)
    scalars.emplace_back(fmt::format("more_rounds/{}", load.scope), static_cast<double>(load.more_rounds));
  for (const auto& [name, value] : activation_numbers)
    for (const auto& layer : record.activations) scalars.emplace_back(fmt::format("{}/layer_{:03}", name, layer.layer), value(layer));
}

runtime::EventHistograms expert_histograms(const StepRecord& record) {
  runtime::EventHistograms histograms;
  for (const auto& load : record.experts) histograms.emplace_back(fmt::format("expert_tokens/{}", load.scope), load.counts);
  return histograms;
}

}  // namespace millrace::actors
