#include "runtime/program/exchange.hpp"

#include "runtime/program/operation.hpp"

namespace millrace::runtime {

std::vector<Segment> segments_of(const std::vector<Operation>& program) {
  std::vector<Segment> segments(1);
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (const ExchangeId awaited = awaited_by(program[i]); awaited.valid()) segments.push_back({.first = i, .end = i, .awaits = awaited});
    if (const ExchangeId posted = posted_by(program[i]); posted.valid()) segments.back().posts.push_back(posted);
    segments.back().end = i + 1;
  }
  return segments;
}

}  // namespace millrace::runtime
