#pragma once

#include <string>
#include <vector>

#include "actors/setup/pipeline_plan.hpp"
#include "runtime/io/metrics_file.hpp"

/// The room that the owners of experts have for rows of tokens (experts.capacity), and how often it does not suffice.
namespace millrace::actors {

/// The fraction of a layer's exchanges in which some owner gets more rows than `room`: for `tokens` of all members together, each with
/// `chosen` different experts, of which expert e has shares[e] of all choices (Σ = 1), and owners that have as many experts each. Tokens
/// are taken to choose independently of each other, and the rows of an owner to be normally distributed. Choices that tokens of a text have
/// in common make overflow more probable than that.
[[nodiscard]] double overflow_probability(std::int64_t tokens, std::int64_t chosen, const std::vector<double>& shares, int owners,
                                          std::int64_t room);

/// Lines about the room, the worst case and the fraction of exchanges that need further rounds, if experts are chosen equally often and, if
/// there are some, with the choices of each step of a run; empty where ranks share no experts. Every line ends with a line break.
[[nodiscard]] std::string expert_room_text(const PlanRequest& request, const std::vector<std::vector<runtime::RouterTokens>>& steps = {});

}  // namespace millrace::actors
