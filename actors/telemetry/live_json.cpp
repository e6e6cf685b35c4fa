#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "actors/telemetry/live_view.hpp"
#include "actors/telemetry/step_fields.hpp"

namespace millrace::actors {
namespace {

using Json = nlohmann::ordered_json;

/// JSON cannot represent values that are not finite.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// −1 means none.
Json index(std::int64_t value) { return value >= 0 ? Json(value) : Json(nullptr); }

/// A rank that has not reported yet is shown as null.
Json if_known(const LiveRank& rank, Json value) { return rank.known ? std::move(value) : Json(nullptr); }

Json ring_json(const cluster::Progress::Ring& ring) { return {{"tokens", ring.tokens}, {"slots", ring.slots}}; }

Json times_json(const StepTimes& times) {
  const auto seconds = [](std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
  return {{"wall", seconds(times.wall)},           {"compute", seconds(times.compute)},   {"bubble", seconds(times.bubble)},
          {"wait", seconds(times.wait)},           {"exchange", seconds(times.exchange)}, {"data", seconds(times.data)},
          {"reduction", seconds(times.reduction)}, {"other", seconds(times.other())}};
}

Json rank_json(const LiveView& view, std::size_t place) {
  const auto& rank = view.ranks[place];
  const auto& progress = rank.progress;
  Json json{{"rank", place}, {"process", rank.process}};
  if (view.run.copies > 1) {
    const std::size_t positions = view.ranks.size() / static_cast<std::size_t>(view.run.copies);
    json["copy"] = place / positions;
    json["position"] = place % positions;
  }
  json["action"] = if_known(rank, std::string(progress.action.data()));
  json["stage"] = index(progress.stage);
  json["microbatch"] = index(progress.microbatch);
  json["step"] = index(progress.step);
  json["seconds"] = if_known(rank, number(rank.seconds));
  json["heard_seconds"] = if_known(rank, number(rank.heard_seconds));
  json["activations"] = if_known(rank, ring_json(progress.activations));
  json["gradients"] = if_known(rank, ring_json(progress.gradients));
  const auto& last = view.totals.last;
  json["last_step"] = last && place < last->ranks.size() ? times_json(last->ranks[place]) : Json(nullptr);
  return json;
}

/// {"lm_loss": 3.48, …}
Json terms_json(const std::vector<runtime::StepLoss::Named>& terms) {
  Json json = Json::object();
  for (const auto& term : terms) json[term.name] = number(term.value);
  return json;
}

Json metric_json(const StepMetric& metric, double value) {
  return metric.unit == MetricUnit::bytes ? Json(static_cast<std::uint64_t>(value)) : number(value);
}

/// The metrics that have a tile on the page: [{"name": …, "title": …, "unit": …}, …].
Json tiles_json() {
  Json tiles = Json::array();
  for (const StepMetric& metric : step_metrics) {
    const char* unit = metric.unit == MetricUnit::fraction ? "fraction" : metric.unit == MetricUnit::bytes ? "bytes" : "number";
    if (!metric.tile.empty())
      tiles.push_back({{"name", metric.name}, {"title", metric.tile}, {"unit", unit}, {"decimals", metric.decimals}});
  }
  return tiles;
}

/// What the run has read; null for a run that reads no files.
Json data_json(const runtime::DataProgress& data) {
  if (data.sources.empty()) return nullptr;
  Json sources = Json::array();
  for (const auto& source : data.sources)
    sources.push_back({{"name", source.name}, {"tokens", source.tokens}, {"epochs", number(source.epochs)}});
  return {{"tokens_seen", data.tokens}, {"sources", std::move(sources)}};
}

Json last_json(const LiveView& view) {
  if (!view.totals.last) return nullptr;
  const auto& last = *view.totals.last;
  const double left = static_cast<double>(last.steps - last.step) * view.totals.smooth_seconds;
  const auto utilization = flops_utilization(last, view.run.peak_flops);
  Json json{{"step", last.step}, {"loss", number(last.loss)}};
  if (!last.terms.empty()) json["loss_terms"] = terms_json(last.terms);
  json.update({{"gradient_norm", number(last.gradient_norm)},
               {"learning_rate", last.learning_rate},
               {"tokens", last.tokens},
               {"seconds", last.seconds},
               {"tokens_per_second", number(static_cast<double>(last.tokens) / last.seconds)},
               {"flops_utilization", utilization ? number(*utilization) : Json(nullptr)}});
  for (std::size_t i = 0; i < step_metrics.size(); ++i)
    if (is_shown(step_metrics[i], last.metrics)) json[std::string(step_metrics[i].name)] = metric_json(step_metrics[i], last.metrics[i]);
  json.update({{"device_bytes", last.device_total > 0 ? Json(last.device_used) : Json(nullptr)},
               {"device_total_bytes", last.device_total > 0 ? Json(last.device_total) : Json(nullptr)},
               {"seconds_left", number(left)},
               {"data_read", data_json(last.data)}});
  return json;
}

/// [[step, value, …], …].
template <std::size_t N>
Json curve_json(const MergedCurve<N>& points) {
  Json curve = Json::array();
  for (const auto& point : points.points()) {
    Json& entry = curve.emplace_back(Json::array({point.step}));
    for (const double value : point.values) entry.push_back(number(value));
  }
  return curve;
}

Json curve_json(const std::vector<LiveTotals::Point>& points) {
  Json curve = Json::array();
  for (const auto& point : points) curve.push_back({point.step, number(point.loss)});
  return curve;
}

/// The routers of the last step, and how even their choices were over the steps; null for a model without experts.
Json experts_json(const LiveTotals& totals) {
  if (!totals.last || totals.last->experts.empty()) return nullptr;
  Json routers = Json::array();
  for (const auto& load : totals.last->experts)
    routers.push_back({{"name", load.scope},
                       {"layer", index(load.layer)},
                       {"tokens", load.counts},
                       {"entropy", number(load.entropy())},
                       {"evenness", number(load.evenness())},
                       {"hottest", load.hottest()},
                       {"hottest_share", number(load.hottest_share())},
                       {"dropped", load.dropped},
                       {"more_rounds", load.more_rounds}});
  return {{"routers", std::move(routers)}, {"evenness", curve_json(totals.evenness)}};
}

/// Statistics of every layer's output in the last step; null unless run.record_internal_metrics is set.
Json activations_json(const LiveTotals& totals) {
  if (!totals.last || totals.last->activations.empty()) return nullptr;
  Json layers = Json::array();
  for (const auto& layer : totals.last->activations)
    layers.push_back({{"layer", index(layer.layer)},
                      {"fraction_zero", number(layer.fraction_zero)},
                      {"mean", number(layer.mean)},
                      {"stdev", number(layer.deviation)}});
  return layers;
}

Json straggler_json(const std::optional<Straggler>& straggler) {
  if (!straggler) return nullptr;
  return {{"copy", straggler->copy}, {"rank", straggler->rank}, {"slower", number(straggler->slower)}};
}

Json checkpoints_json(const LiveTotals::Checkpoints& checkpoints) {
  return {{"step", checkpoints.committed > 0 ? Json(checkpoints.step) : Json(nullptr)},
          {"committed", checkpoints.committed},
          {"failed", checkpoints.failed},
          {"problems", checkpoints.problems}};
}

}  // namespace

std::string status_json(const LiveView& view) {
  const auto& run = view.run;
  Json json{{"schema", 1}, {"kind", "millrace.status"}};
  json["run"] = {{"directory", run.directory}, {"model", run.model},
                 {"dtype", run.dtype},         {"schedule", run.schedule},
                 {"layout", run.layout},       {"processes", run.processes},
                 {"ranks", run.ranks},         {"first_step", run.first_step},
                 {"steps", run.steps},         {"microbatches", run.microbatches}};
  if (run.copies > 1) json["run"]["copies"] = run.copies;
  json["up_seconds"] = view.up_seconds;
  json["last_step"] = last_json(view);
  json["ranks"] = Json::array();
  for (std::size_t place = 0; place < view.ranks.size(); ++place) json["ranks"].push_back(rank_json(view, place));
  if (run.copies > 1) json["straggler"] = straggler_json(view.totals.straggler);
  json["losses"] = curve_json(view.totals.losses);
  json["held_out"] = curve_json(view.totals.held_out);
  if (!view.totals.held_out_terms.empty()) json["held_out_terms"] = terms_json(view.totals.held_out_terms);
  json["experts"] = experts_json(view.totals);
  json["activations"] = activations_json(view.totals);
  json["tiles"] = tiles_json();
  json["checkpoints"] = checkpoints_json(view.totals.checkpoints);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace millrace::actors
