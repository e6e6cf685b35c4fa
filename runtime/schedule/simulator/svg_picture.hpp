#pragma once

#include <string>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// A step as an SVG file: a row a rank over a time axis, a box an action with its microbatch in it, colour by kind and hue by chunk, idle
/// time hatched, a legend, and below what every rank holds over time. An overlapped pair is one box of two halves, F over B. Pointing at a
/// box shows the action, its times and whose token it needed. `note` stands under the title, for example the costs. Plain SVG 1.1 without
/// scripts. The same simulation gives the same bytes.
[[nodiscard]] std::string svg_picture(const Schedule& schedule, const Simulation& simulation, const std::string& note = "");

}  // namespace millrace::runtime
