#pragma once

#include <string>

#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::runtime {

/// Draws a step as an SVG file: a row per rank over a time axis, and a box per action with its microbatch, coloured by kind, with
/// a hue per chunk. Idle time is hatched; there is a legend, and below it the memory of every rank over time. An overlapped pair
/// is one box of two halves, F above B. The tooltip of a box shows the action, its times and the producer of its input. `note` is
/// shown below the title, for example the costs. Plain SVG 1.1 without scripts. The same simulation gives the same bytes.
[[nodiscard]] std::string svg_picture(const Schedule& schedule, const Simulation& simulation, const std::string& note = "");

}  // namespace millrace::runtime
