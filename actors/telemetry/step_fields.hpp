#pragma once

#include <optional>

#include "actors/coordinator.hpp"
#include "runtime/io/event_file.hpp"
#include "runtime/io/metrics_file.hpp"

/// What a step's record says of routers, layers and the machine, in the forms of the files that a run writes.
namespace millrace::actors {

/// MFU, which every text, page and file shows: the model's FLOP/s of the step as a fraction of the job's peak. Nothing if the peak is not
/// known (0).
[[nodiscard]] std::optional<double> flops_utilization(const StepRecord& record, double peak_flops);

/// Appends what the run has read since its first step: tokens_seen, and epoch; of a mixture the lists sources (names), source_tokens and
/// source_epochs in place of epoch.
void add_data(const runtime::DataProgress& data, runtime::MetricsRecord& line);

/// Appends the fields of metrics.jsonl. Each is a list, an entry per router in the order of `routers` (their names, "layers.3"):
/// expert_tokens (the choices of each expert), expert_entropy (nats), expert_evenness (entropy / ln E), hottest_expert, hottest_share,
/// dropped_tokens; and with run.record_internal_metrics an entry per layer: activ_fraction_zero, activ_mean, activ_stdev.
/// Nothing is appended for a model without experts, or without these metrics.
void add_fields(const StepRecord& record, runtime::MetricsRecord& line);

/// Appends more_rounds, a list by router (runtime::ExpertLoad), if a step has some. It depends on the layout.
void add_rounds(const StepRecord& record, runtime::MetricsRecord& line);
/// Says which router needed most of them; empty if none did.
[[nodiscard]] std::string rounds_warning(const StepRecord& record);

/// The same as scalars of TensorBoard: expert_entropy/layers.3 and so on; the layers' statistics under MaxText's names,
/// activ_mean/layer_003.
void add_scalars(const StepRecord& record, runtime::EventScalars& scalars);

/// The choices of each router's experts as histograms: expert_tokens/layers.3.
[[nodiscard]] runtime::EventHistograms expert_histograms(const StepRecord& record);

}  // namespace millrace::actors
