#include "runtime/optimizers/spike_detector.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

struct Step {
  double loss, norm;
  bool spike;
};

void expect(SpikeDetector& detector, const std::vector<Step>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(detector.see(steps[i].loss, steps[i].norm), steps[i].spike) << "step " << i;
}

// Means 2 and deviations √(2/3) of four numbers, or 1 of three: worked by hand.
TEST(SpikeDetector, ComparesWithTheMeanAndDeviationOfTheWindow) {
  SpikeDetector detector(4, 2.0);
  expect(detector, {{1, 9, false},       // 0 + 1 < 2: too early
                    {3, 9, true},        // mean 1, deviation 0 of a single number: anything above it
                    {2, 9, false},       // mean 2, deviation √2
                    {4.0, 9, false},     // mean 2, deviation 1: at the limit
                    {5.1, 9, true},      // mean 2.5, deviation 1.291 of 1, 3, 2, 4: the limit is 5.082
                    {-100, 9, false}});  // only what is above it is a spike
}

TEST(SpikeDetector, LooksAtTheNormToo) {
  SpikeDetector detector(8, 1.0);
  expect(detector, {{1, 1, false}, {1, 2, false}, {1, 3, false}, {1, 3.1, true}, {1, 3.0, false}});
}

TEST(SpikeDetector, WaitsForHalfOfTheWindow) {
  SpikeDetector detector(8, 0.5);
  expect(detector, {{1, 1, false}, {9, 1, false}, {99, 1, false}, {999, 1, true}});
  SpikeDetector smallest(1, 0.5);
  expect(smallest, {{1, 1, false}, {2, 1, true}, {2, 1, false}});
}

TEST(SpikeDetector, ForgetsWhatIsOlderThanTheWindowAndKeepsSpikes) {
  SpikeDetector detector(2, 1.0);
  expect(detector, {{1, 0, false}, {100, 0, true}, {100, 0, false}, {101, 0, true}, {101, 0, false}});
}

TEST(SpikeDetector, RefusesWhatIsNotANumber) {
  SpikeDetector detector(4, 6);
  expect(detector, {{1, 1, false}, {std::nan(""), 1, true}, {1, 1, true}});
}

TEST(SpikeDetector, ContinuesFromItsState) {
  SpikeDetector first(5, 0.7);
  const auto number = [](int i) { return 2.0 + std::sin(static_cast<double>(i * i)); };
  for (int step = 0; step < 13; ++step) static_cast<void>(first.see(number(step), number(step + 50)));
  SpikeDetector second(5, 0.7);
  second.restore(first.state());
  EXPECT_EQ(second.state(), first.state());
  int spikes = 0;
  for (int step = 13; step < 40; ++step) {
    const bool spike = first.see(number(step), number(step + 50));
    EXPECT_EQ(second.see(number(step), number(step + 50)), spike) << step;
    spikes += spike ? 1 : 0;
  }
  EXPECT_GT(spikes, 3);
  EXPECT_LT(spikes, 24);
}

TEST(SpikeDetector, RefusesTheStateOfAnotherWindow) {
  SpikeDetector other(6, 1);
  tests::expect_error([&] { other.restore(SpikeDetector(5, 1).state()); }, ExitCode::checkpoint,
                      {"5 numbers", "skip_step.losses", "expected 6"});
  tests::expect_error([&] { other.restore({}); }, ExitCode::checkpoint, {"0 numbers"});
}

}  // namespace
}  // namespace millrace::runtime
