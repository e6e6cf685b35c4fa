#include "runtime/profile/profile_check.hpp"

#include "runtime/io/json_words.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace millrace::runtime {
namespace {

using Json = nlohmann::json;

std::string rank_problem(const Json& parts, const Json& causes, double wall) {
  if (parts.size() != causes.size()) return fmt::format("{} numbers, there are {} causes", parts.size(), causes.size());
  double sum = 0;
  for (std::size_t cause = 0; cause < parts.size(); ++cause) {
    const double part = parts[cause].get<double>();
    if (!(part >= 0)) return fmt::format("{} is {} ms", causes[cause].get<std::string>(), part);
    sum += part;
  }
  if (std::abs(sum - wall) <= 0.005 * wall) return "";
  return fmt::format("the causes add up to {:.3f} ms of {:.3f} ms, expected within 0.5 %", sum, wall);
}

}  // namespace

std::vector<std::string> profile_problems(const std::string& text) {
  const Json profile = Json::parse(text, nullptr, false);
  if (profile.is_discarded()) return {"not JSON"};
  std::vector<std::string> problems;
  try {
    const auto format = profile.at("format").get<std::string>();
    if (format != "millrace.profile.1") return {fmt::format("format {}, expected millrace.profile.1", format)};
    if (profile.at("steps").empty()) problems.emplace_back("no steps");
    for (const Json& step : profile.at("steps")) {
      for (std::size_t rank = 0; rank < step.at("ranks").size(); ++rank) {
        const auto problem = rank_problem(step.at("ranks")[rank], profile.at("causes"), step.at("wall").at(rank).get<double>());
        if (!problem.empty()) problems.push_back(fmt::format("step {} on rank {}: {}", step.at("step").get<int>(), rank, problem));
      }
    }
  } catch (const Json::exception& error) {
    problems.push_back(json_words(error.what()));
  }
  return problems;
}

}  // namespace millrace::runtime
