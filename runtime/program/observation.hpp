#pragma once

#include <string>
#include <string_view>

#include "runtime/program/value.hpp"

namespace millrace::runtime {

/// A value of the forward program that a step's record shows, and that no number of the training depends on: i32 [n] or f64 [n], whose
/// entries are added over the microbatches of a step; of score_maxima the largest is taken.
struct StageObservation {
  std::string name;   // one of those below
  int layer = -1;     // decoder layer; -1 if outside of one
  std::string scope;  // of the builder: "layers.3". It tells two routers of one layer apart
  ValueId value;
};

/// i32 [E + 1] of a router: where the rows of each expert begin in the order of experts, so that the differences are the choices of each.
inline constexpr std::string_view expert_load_name = "expert_load";
/// i32 [1] of a router: the choices that exceed the capacity of their expert. A router without a capacity drops nothing and observes
/// nothing.
inline constexpr std::string_view dropped_tokens_name = "dropped_tokens";
/// i32 [1] of a router: the rounds of its exchanges beside the first, which the room for rows of experts made necessary. One that exchanges
/// all rows at once observes nothing.
inline constexpr std::string_view more_rounds_name = "more_rounds";
/// f64 [H] of an attention: the largest score of every head.
inline constexpr std::string_view score_maxima_name = "score_maxima";
/// f64 [4] of a layer's output: the number of its elements, of those that are exactly zero, the sum and the sum of squares.
inline constexpr std::string_view activation_name = "activation";

}  // namespace millrace::runtime
