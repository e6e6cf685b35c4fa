#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/coordinator.hpp"

namespace millrace::actors {

/// " | lm_loss 3.4821 | moe_lb_loss 0.0120"; empty without terms.
[[nodiscard]] std::string terms_text(const std::vector<runtime::StepLoss::Named>& terms);

/// The line of a step, with the same fields in every layout:
///   step 120/5000 | loss 3.4821 (+0.3z) | gnorm 0.91 | lr 3.0e-04 | 182.4k tok/s | 41.7% MFU | 1437 ms | bubble 8.9% wait 1.2% | epoch
///   0.31 | 9.8M tokens | eta 3h12m | 61.2 GiB | gpu 91.2 of 139.8 GiB
/// z is the loss's deviation from the mean of the last 128 steps, in their standard deviations. A loss of several terms is followed by
/// each of them: "| loss 3.4941 (+0.3z) | lm_loss 3.4821 | moe_lb_loss 0.0120 |". What says nothing is left out: fractions and counts
/// that were 0 in all steps so far, the learning rate if the run's is constant, and behind the eta memory that is what it was.
class LogLine {
 public:
  /// peak_flops: the measured matmul peak of the job's cores; 0: unknown, and MFU is omitted. `shows_rate`: the learning rate changes.
  explicit LogLine(double peak_flops, bool shows_rate = true) : peak_flops_(peak_flops), shows_rate_(shows_rate) {}

  /// Takes the next step. To be called with every step, whether its line is printed or not.
  void add(const StepRecord& record);
  /// The line of the newest step for a log, where fields stand below those of the line before: none is narrower than it was.
  [[nodiscard]] std::string aligned();
  /// The line of the newest step for a terminal of this width, with the most important fields that fit.
  [[nodiscard]] std::string within(std::size_t columns) const;

 private:
  /// "bubble 8.9%": a value between its name and its unit.
  struct Field {
    std::string name, value, unit = {};
    int importance = 0;         // within() leaves out the fields with the largest numbers first
    bool joined = false;        // belongs to the field before, without a bar between them
    bool left = false;          // padded behind the value
    bool only_changes = false;  // aligned() shows it if it differs from the line before
    std::size_t min_width = 0;  // of the value in aligned()
    [[nodiscard]] std::string text(std::size_t width) const;
  };
  void add_metrics(const StepRecord& record);
  /// Adds a field unless its value has said nothing so far.
  void add_unless_zero(Field field, bool zero);

  double peak_flops_;
  bool shows_rate_;
  std::deque<double> losses_;
  double smooth_seconds_ = 0;
  std::int64_t seen_ = 0;
  std::vector<Field> fields_;                  // of the newest step
  std::set<std::string> not_zero_;             // names of fields that were not 0 in some step
  std::map<std::string, std::size_t> widths_;  // of values, by name and unit of their field
  std::map<std::string, std::string> shown_;   // values of fields that show changes only
};

}  // namespace millrace::actors
