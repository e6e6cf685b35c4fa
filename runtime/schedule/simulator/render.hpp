#pragma once

#include <string>

#include "runtime/schedule/placement.hpp"
#include "runtime/schedule/simulator/replay.hpp"

namespace millrace::runtime {

/// Draws a timeline as text, one line per rank: `F3` where an action begins, `=` while it lasts beyond one unit, `.` where a unit
/// is idle. An overlapped pair is one block, `F3&b1====`. Lower case is a rank's second chunk; with three or more chunks the
/// chunk's index is written in front, `2F3`. `unit` is the time of one cell, `columns` its width (3 fits "F3 ").
///
///     r0|F0 F1 .  .  B0====B1====|
///     r1|.  F0 B0====F1 B1====.  |
[[nodiscard]] std::string render(const Timeline& timeline, const Placement& placement, double unit, int columns = 3);

}  // namespace millrace::runtime
