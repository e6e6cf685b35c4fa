#include "actors/planning/expert_room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "kernels/base/count.hpp"
#include "kernels/base/dtype.hpp"
#include "layers/moe/expert_sum.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {
namespace {

/// The probability that a normally distributed count is above `limit`.
double above(double mean, double variance, std::int64_t limit) {
  const double distance = static_cast<double>(limit) + 0.5 - mean;
  if (variance <= 0) return distance < 0 ? 1 : 0;
  return 0.5 * std::erfc(distance / std::sqrt(2 * variance));
}

std::string percent(double fraction) { return fmt::format("{:.{}f}%", 100 * fraction, fraction < 0.001 ? 4 : 1); }

}  // namespace

double overflow_probability(std::int64_t tokens, std::int64_t chosen, const std::vector<double>& shares, int owners, std::int64_t room) {
  const auto experts = static_cast<double>(shares.size()), each = static_cast<double>(chosen);
  const std::size_t own = shares.size() / static_cast<std::size_t>(owners);
  // Different experts of a token: fewer chances for an owner that has one of them already.
  const double different = experts > 1 ? (experts - each) / (experts - 1) : 0;
  double sum = 0;
  for (std::size_t first = 0; first < shares.size(); first += own) {
    const double share = std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(first),
                                         shares.begin() + static_cast<std::ptrdiff_t>(first + own), 0.0);
    const double mean = static_cast<double>(tokens) * std::min(each * share, static_cast<double>(own));
    sum += above(mean, mean * std::max(0.0, 1 - share) * different, room);
  }
  return std::min(1.0, sum);
}

std::string expert_room_text(const PlanRequest& request, const std::vector<std::vector<runtime::RouterTokens>>& steps) {
  const auto& model = request.model;
  const int owners = static_cast<int>(request.mesh.expert);
  if (owners == 1) return {};
  const std::int64_t tokens = request.train.batch * request.train.sequence;
  const auto rows = layers::expert_rows(tokens, model.experts_per_token, model.experts, {owners, 0, request.mesh.capacity});
  const std::int64_t row =
      model.hidden_size *
      static_cast<std::int64_t>(kernels::size_of(request.train.dtype == "bf16" ? kernels::DType::bf16 : kernels::DType::f32));
  const auto bytes = [&](std::int64_t count) { return runtime::bytes_text(static_cast<std::uint64_t>(count * row)); };
  std::string text = fmt::format("experts   {} share {}, each with room for {} of width {} ({})", counted(owners, "rank"), model.experts,
                                 counted(rows.room, "row"), model.hidden_size, bytes(rows.room));
  if (rows.rounds == 1) return text + ", which is the worst case\n";
  text += fmt::format(" of at most {} ({}): experts.capacity = {}\n", rows.most, bytes(rows.most), request.mesh.capacity);
  const auto fraction = [&](const std::vector<double>& shares) {
    return overflow_probability(owners * tokens, model.experts_per_token, shares, owners, rows.room);
  };
  const std::vector<double> even(static_cast<std::size_t>(model.experts), 1 / static_cast<double>(model.experts));
  text += fmt::format("          {} of exchanges need more than one round, of at most {}, if experts are chosen equally often\n",
                      percent(fraction(even)), rows.rounds);
  std::map<std::string, std::pair<double, int>> routers;  // sum over steps, and their number
  for (const auto& step : steps)
    for (const auto& [router, counts] : step) {
      const double all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
      if (all == 0 || counts.size() != even.size()) continue;
      std::vector<double> shares;
      for (const std::int64_t count : counts) shares.push_back(static_cast<double>(count) / all);
      auto& [sum, number] = routers[router];
      sum += fraction(shares);
      ++number;
    }
  if (routers.empty()) return text;
  const auto mean = [](const auto& router) { return router.second.first / router.second.second; };
  double all = 0;
  for (const auto& router : routers) all += mean(router) / static_cast<double>(routers.size());
  const auto most = std::ranges::max_element(routers, {}, mean);
  return text + fmt::format("          {} with the choices of {} recorded steps, and {} of those of {}\n", percent(all), steps.size(),
                            percent(mean(*most)), most->first);
}

}  // namespace millrace::actors
