#include "runtime/profile/report/run_page.hpp"

#include <gtest/gtest.h>

namespace millrace::runtime {
namespace {

bool has(const std::string& page, const char* part) { return page.find(part) != std::string::npos; }

constexpr const char* metrics = R"({"schema":1,"kind":"millrace.metrics"}
{"step":1,"loss":5.5,"loss_hex":"0x1.6p+2","lm_loss":5.25,"lm_loss_hex":"0x1.5p+2","gradient_norm":2,"gradient_norm_hex":"0x1p+1","learning_rate":0.001,"tokens":128,"step_skipped":0,"expert_evenness":[0.5,1.0]}
{"step":2,"loss":"inf","loss_hex":"inf","gradient_norm":3,"gradient_norm_hex":"0x1.8p+1","learning_rate":0.002,"tokens":128,"step_skipped":1,"expert_evenness":[0.75,0.75]}
{"step":2,"evaluation_loss":4.5,"evaluation_loss_hex":"0x1.2p+2"}
{"step":3,"loss":4.0,"loss_hex":"0x1p+2","gradient_norm":1,"gradient_norm_hex":"0x1p+0","learning_rate":0.003,"tokens":256,"step_skipped":0,"expert_evenness":[1.0,1.0]}
not a line of ours
)";

TEST(RunPage, DrawsWhatTheMetricsHave) {
  const std::string page = run_page("runs/a", metrics);
  for (const char* part : {"<h1>runs/a</h1>", "3 steps", "<h2>Loss</h2>", "<h2>Loss term lm_loss</h2>", "<h2>Gradient norm",
                           "<h2>Learning rate</h2>", "<h2>Steps that were skipped</h2>", "<h2>Balance of experts</h2>",
                           "<h2>Tokens of a step</h2>", "held-out loss: 4.5", "loss: 4<", "norm: 1<", "mean over the routers: 1<"})
    EXPECT_TRUE(has(page, part)) << part;
  for (const char* absent : {"attention score", "http", "<script", "nan", "inf"}) EXPECT_FALSE(has(page, absent)) << absent;
}

TEST(RunPage, ShowsWhatWasReadOfEachSource) {
  const std::string page = run_page("a", R"({"step":1,"loss":2,"sources":["web","<b>"],"source_tokens":[60,20],"source_epochs":[0.5,2.25]}
{"step":2,"loss":1,"sources":["web","<b>"],"source_tokens":[1200,400],"source_epochs":[1.5,4.25]}
{"step":3,"loss":1,"sources":["web"],"source_tokens":[1,2],"source_epochs":[]}
)");
  for (const char* part : {"<h2>Epochs of the data</h2>", ">web: 1.5<", ">&lt;b&gt;: 4.25<", "<h2>Sources of the data</h2>",
                           "<tr><td>web</td><td>1200</td><td>75.00 %</td><td>1.50</td></tr>", "<td>400</td><td>25.00 %</td><td>4.25</td>"})
    EXPECT_TRUE(has(page, part)) << part << page;
  EXPECT_TRUE(has(run_page("a", "{\"step\":1,\"loss\":2,\"epoch\":0.75}\n"), "epoch: 0.75<"));
  EXPECT_FALSE(has(run_page("a", "{\"step\":1,\"loss\":2,\"epoch\":0.75}\n"), "Sources"));
}

TEST(RunPage, ShowsATitleAsText) {
  const std::string page = run_page("<b>&", "");
  EXPECT_TRUE(has(page, "&lt;b&gt;&amp;"));
  EXPECT_TRUE(has(page, "No step has been finished."));
}

}  // namespace
}  // namespace millrace::runtime
