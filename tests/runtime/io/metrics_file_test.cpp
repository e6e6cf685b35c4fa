#include "runtime/io/metrics_file.hpp"

#include <cmath>
#include <limits>

#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime {
namespace {

using testing::error_of;
using testing::fault_at;
using testing::Scratch;
using testing::slurp;
using testing::spill;

const std::string header = "{\"schema\":1,\"kind\":\"millrace.metrics\"}\n";

std::string line(std::uint64_t step) { return to_json_line({step, {{"loss", ExactNumber{1.0 / static_cast<double>(step)}}}}); }

std::string lines(std::uint64_t last) {
  auto text = header;
  for (std::uint64_t step = 1; step <= last; ++step) text += line(step);
  return text;
}

TEST(MetricsFile, NumbersKeepAllTheirBits) {
  EXPECT_EQ(to_json_line({3, {{"loss", ExactNumber{1.25}}, {"lr", 0.1}, {"tokens", std::int64_t{512}}, {"note", std::string("a\"b")}}}),
            "{\"step\":3,\"loss\":1.25,\"loss_hex\":\"0x1.4p+0\",\"lr\":0.10000000000000001,\"tokens\":512,\"note\":\"a\\\"b\"}\n");
  EXPECT_EQ(to_json_line({1, {{"a", std::nan("")}, {"b", -std::numeric_limits<double>::infinity()}}}),
            "{\"step\":1,\"a\":\"nan\",\"b\":\"-inf\"}\n");
  for (const double value : {1.0 / 3, 5e-324, 1.7976931348623157e308}) EXPECT_EQ(std::strtod(hexadecimal(value).c_str(), nullptr), value);
}

TEST(MetricsFile, ListsAreArrays) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(to_json_line({2,
                          {{"routers", std::vector<std::string>{"layers.0", "a\"b"}},
                           {"counts", std::vector<Counts>{{1, 2}, {}}},
                           {"entropy", std::vector<double>{0.5, std::nan("")}},
                           {"none", Counts()}}}),
            "{\"step\":2,\"routers\":[\"layers.0\",\"a\\\"b\"],\"counts\":[[1,2],[]],\"entropy\":[0.5,\"nan\"],\"none\":[]}\n");
}

TEST(MetricsFile, GivesTheExactNumbersOfEachStep) {
  const Scratch scratch;
  const auto path = scratch / "metrics.jsonl";
  EXPECT_TRUE(read_exact_steps(path).empty());
  spill(path, header + to_json_line({1, {{"loss", ExactNumber{1.25}}, {"gradient_norm", ExactNumber{0.5}}}}) +
                  to_json_line({1, {{"held_out_loss", ExactNumber{1.5}}}}) + "nonsense\n[1]\n{\"step\":\"x\",\"loss_hex\":1}\n" +
                  to_json_line({2, {{"loss", ExactNumber{1.0}}, {"gradient_norm", ExactNumber{0.25}}}}) + "{\"step\":3,\"loss_hex\":\"0x");
  const std::map<std::uint64_t, ExactStep> wanted{{1, {"0x1.4p+0", "0x1p-1"}}, {2, {"0x1p+0", "0x1p-2"}}};
  EXPECT_EQ(read_exact_steps(path), wanted);
}

TEST(MetricsFile, GoesOnWhereItStopped) {
  const Scratch scratch;
  {
    MetricsFile file(scratch / "run/metrics.jsonl");
    file.append({1, {{"loss", ExactNumber{1.0}}}});
    file.sync();
  }
  MetricsFile file(scratch / "run/metrics.jsonl");
  file.append({2, {{"loss", ExactNumber{0.5}}}});
  EXPECT_EQ(slurp(scratch / "run/metrics.jsonl"), lines(2));
}

TEST(MetricsFile, IsCutBackToTheResumedStep) {
  const Scratch scratch;
  const auto path = scratch / "metrics.jsonl";
  for (std::uint64_t step = 0; step <= 6; ++step) {
    spill(path, lines(5) + "{\"step\":6,\"lo");
    cut_metrics_back_to(path, step);
    EXPECT_EQ(slurp(path), lines(std::min<std::uint64_t>(step, 5))) << step;
  }
  cut_metrics_back_to(scratch / "nothing", 3);
  EXPECT_EQ(kind_of(scratch / "nothing"), PathKind::missing);
  spill(path, lines(5));
  MetricsFile(path, 2).append({3, {{"loss", ExactNumber{1.0 / 3}}}});
  EXPECT_EQ(slurp(path), lines(3));
}

TEST(MetricsFile, ATornLineGoesAtEveryLength) {
  const Scratch scratch;
  const auto path = scratch / "metrics.jsonl";
  const auto whole = lines(3);
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    spill(path, whole.substr(0, length));
    { const MetricsFile file(path); }
    const auto end = whole.rfind('\n', length == 0 ? 0 : length - 1);
    EXPECT_EQ(slurp(path), end == std::string::npos ? header : whole.substr(0, end + 1)) << length;
  }
}

TEST(MetricsFile, EveryFailureOfACutLeavesTheOldFileOrTheNew) {
  const Scratch scratch;
  const auto path = scratch / "metrics.jsonl";
  spill(path, lines(5));
  set_file_hook([](const FileCall&) { return FileFault::none; });
  cut_metrics_back_to(path, 3);
  const auto calls = file_calls();
  for (std::uint64_t k = 1; k <= calls; ++k) {
    spill(path, lines(5));
    set_file_hook(fault_at(k, FileFault::no_space));
    EXPECT_NE(error_of(ExitCode::storage, [&] { cut_metrics_back_to(path, 3); }), "");
    EXPECT_EQ(slurp(path), k == calls ? lines(3) : lines(5)) << k;
  }
}

TEST(MetricsFile, AFullDiskLeavesWholeLines) {
  const Scratch scratch;
  MetricsFile file(scratch / "metrics.jsonl");
  file.append({1, {{"loss", ExactNumber{1.0}}}});
  set_file_hook(fault_at(1, FileFault::no_space));
  EXPECT_NE(error_of(ExitCode::storage, [&] { file.append({2, {}}); }), "");
  set_file_hook({});
  file.append({2, {{"loss", ExactNumber{0.5}}}});
  EXPECT_EQ(slurp(scratch / "metrics.jsonl"), lines(2));
}

TEST(MetricsFile, RefusesAnotherFile) {
  const Scratch scratch;
  spill(scratch / "metrics.jsonl", "{\"schema\":2}\n");
  EXPECT_TRUE(testing::contains(error_of(ExitCode::data, [&] { const MetricsFile file(scratch / "metrics.jsonl"); }), "first line"));
}

}  // namespace
}  // namespace millrace::runtime
