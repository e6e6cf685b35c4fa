#include "cluster/status/status_server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cluster/status/status_request.hpp"
#include "kernels/base/check.hpp"
#include "tests/support/http_client.hpp"

namespace millrace::cluster {
namespace {

using namespace std::chrono_literals;
using tests::Answer;
using tests::ask;
using tests::Connection;
using tests::get;
using tests::request_text;

StatusConfig free_port() {
  StatusConfig config;
  config.port = 0;
  return config;
}

/// A limit on connections per second so high that tests about other things need not wait.
StatusLimits hurried() {
  StatusLimits limits;
  limits.connections_a_second = 1e6;
  return limits;
}

std::vector<StatusPage> pages() {
  return {{"/", "text/html; charset=utf-8", [] { return std::string("<p>a page"); }, 1h},
          {"/status", "application/json", [] { return std::string("{}"); }, 0ms},
          {"/metrics", "text/plain; version=0.0.4", [] { return std::string("up 1\n"); }, 0ms}};
}

/// A server that is running.
struct Served {
  explicit Served(const StatusLimits& limits = hurried(), const std::string& token = "", std::vector<StatusPage> served = pages())
      : server(free_port(), token, limits) {
    server.start(std::move(served));
  }
  [[nodiscard]] int port() const { return server.port(); }
  StatusServer server;
};

std::string error_of(ExitCode code, const StatusConfig& config, const std::string& token = "") {
  try {
    const StatusServer server(config, token);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// -- content ---------------------------------------------------------------------

TEST(StatusServer, ServesItsPages) {
  const Served served;
  const auto page = get(served.port(), "/");
  EXPECT_EQ(page.code, 200);
  EXPECT_EQ(page.body, "<p>a page");
  for (const char* line : {"Content-Type: text/html; charset=utf-8", "Content-Length: 9", "Connection: close",
                           "X-Content-Type-Options: nosniff", "Content-Security-Policy: default-src 'none'"})
    EXPECT_TRUE(page.has(line)) << line << " in " << page.head;
  EXPECT_EQ(get(served.port(), "/status").body, "{}");
  EXPECT_EQ(get(served.port(), "/status?whatever=1").body, "{}");
  EXPECT_EQ(get(served.port(), "/metrics").body, "up 1\n");
}

TEST(StatusServer, HeadTellsTheSameWithoutTheBody) {
  const Served served;
  const auto head = ask(served.port(), request_text("/", "", "HEAD"));
  EXPECT_EQ(head.code, 200);
  EXPECT_EQ(head.head, get(served.port(), "/").head);
  EXPECT_EQ(head.body, "");
}

TEST(StatusServer, RefusesEverythingElse) {
  const Served served;
  EXPECT_EQ(get(served.port(), "/favicon.ico").code, 404);
  EXPECT_EQ(get(served.port(), "/status/").code, 404);
  EXPECT_EQ(get(served.port(), "/../etc/passwd").code, 404);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE"}) {
    const auto answer = ask(served.port(), request_text("/status", "", method));
    EXPECT_EQ(answer.code, 405) << method;
    EXPECT_TRUE(answer.has("Allow: GET, HEAD"));
  }
  EXPECT_EQ(ask(served.port(), request_text("/status", "Content-Length: 3\r\n", "GET") + "abc").code, 413);
  EXPECT_EQ(ask(served.port(), request_text("/status", "Transfer-Encoding: chunked\r\n", "POST") + "1\r\na\r\n0\r\n\r\n").code, 413);
  EXPECT_EQ(ask(served.port(), "hello\r\n\r\n").code, 400);
  EXPECT_EQ(ask(served.port(), std::string("\0\x01\x02 / HTTP/1.1\r\n\r\n", 18)).code, 400);
  EXPECT_EQ(get(served.port(), "/").code, 200);
}

TEST(StatusServer, APageThatThrowsIsAnAnswer) {
  auto served_pages = pages();
  served_pages.push_back({"/broken", "text/plain", []() -> std::string { throw std::runtime_error("no view"); }, 0ms});
  const Served served(hurried(), "", served_pages);
  const auto answer = get(served.port(), "/broken");
  EXPECT_EQ(answer.code, 500);
  EXPECT_EQ(answer.body, "no view\n");
  EXPECT_EQ(get(served.port(), "/").code, 200);
}

TEST(StatusServer, CarriesOutAnOrderEachTime) {
  std::atomic<int> done = 0;
  StatusPage order{"/order", "text/plain", [&] { return std::to_string(++done); }, 1h};
  order.order = true;
  const Served served(hurried(), "", {order});
  const auto post = [&](const std::string& more) { return ask(served.port(), request_text("/order", more, "POST")); };
  EXPECT_EQ(post("").code, 202);
  EXPECT_EQ(post("Content-Length: 0\r\nOrigin: http://127.0.0.1\r\n").body, "2");
  for (const char* site : {"http://example.org", "null", "https://127.0.0.1", "http://127.0.0.1:1", "http://127.0.0.1.example"})
    EXPECT_EQ(post("Origin: " + std::string(site) + "\r\n").code, 403) << site;
  for (const char* method : {"GET", "HEAD", "PUT"}) {
    const auto answer = ask(served.port(), request_text("/order", "", method));
    EXPECT_EQ(answer.code, 405) << method;
    EXPECT_TRUE(answer.has("Allow: POST"));
  }
  EXPECT_EQ(done, 2);
}

TEST(StatusServer, MakesATextOnceForAllWhoAskInItsAge) {
  std::atomic<int> made = 0;
  const Served served(hurried(), "", {{"/status", "text/plain", [&] { return std::to_string(++made); }, 1h}});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get(served.port(), "/status").body, "1");
  EXPECT_EQ(made, 1);
}

TEST(StatusServer, IsSilentBeforeItsStartAndAfterItsStop) {
  StatusServer server(free_port(), "", hurried());
  const Connection early(server.port());
  early.say(request_text("/"));
  EXPECT_FALSE(early.hears(50ms));
  server.start(pages());
  EXPECT_EQ(Answer(early.listen().text).code, 200);
  const Connection half(server.port());
  half.say("GET / HT");
  server.stop();
  EXPECT_FALSE(Connection(server.port()).connected());
}

// -- limits -----------------------------------------------------------------------------

TEST(StatusServer, BoundsTheHeader) {
  auto limits = hurried();
  limits.header_bytes = 1024;
  const Served served(limits);
  EXPECT_EQ(get(served.port(), "/", "X: " + std::string(800, 'x') + "\r\n").code, 200);
  EXPECT_EQ(get(served.port(), "/", "X: " + std::string(1100, 'x') + "\r\n").code, 431);
  EXPECT_EQ(get(served.port(), "/" + std::string(100'000, 'x')).code, 431);
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "X" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(get(served.port(), "/", lines).code, 431);
}

TEST(StatusServer, CutsOffWhoFallsSilent) {
  auto limits = hurried();
  limits.request = 100ms;
  const Served served(limits);
  for (const char* beginning : {"", "GET /sta", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"}) {
    const Connection connection(served.port());
    connection.say(beginning);
    const auto heard = connection.listen();
    EXPECT_TRUE(heard.ended) << beginning;
    EXPECT_EQ(heard.text, "");
  }
  // A byte now and then does not extend the time limit.
  const Connection slow(served.port());
  const std::string request = request_text("/");
  std::size_t letter = 0;
  for (; letter < request.size() && !slow.hears(20ms); ++letter) slow.say(request.substr(letter, 1));
  EXPECT_LT(letter, request.size());
  EXPECT_EQ(get(served.port(), "/").code, 200);
}

TEST(StatusServer, CutsOffWhoDoesNotRead) {
  auto limits = hurried();
  limits.answer = 200ms;
  limits.connections = 1;
  const std::string large(32 << 20, 'x');
  auto served_pages = pages();
  served_pages.push_back({"/large", "text/plain", [&] { return large; }, 1h});
  const Served served(limits, "", served_pages);
  const Connection slow(served.port());
  slow.say(request_text("/large"));
  // Only one connection is allowed at a time; the next one is served when it ends.
  EXPECT_EQ(get(served.port(), "/").code, 200);
  const auto heard = slow.listen();
  EXPECT_TRUE(heard.ended);
  EXPECT_LT(heard.text.size(), large.size());
}

TEST(StatusServer, HasSoManyConnectionsAtATime) {
  auto limits = hurried();
  limits.connections = 2;
  limits.request = 10min;
  const Served served(limits);
  Connection first(served.port());
  const Connection second(served.port()), third(served.port());
  third.say(request_text("/"));
  EXPECT_FALSE(third.hears(100ms));
  first.leave();
  EXPECT_EQ(Answer(third.listen().text).code, 200);
}

TEST(StatusServer, AnswersFiftyAtOnce) {
  auto limits = hurried();
  limits.connections = 4;
  const Served served(limits);
  std::vector<Connection> clients;
  for (int i = 0; i < 50; ++i) clients.emplace_back(served.port());
  for (auto client = clients.rbegin(); client != clients.rend(); ++client) client->say(request_text("/metrics"));
  for (const auto& client : clients) EXPECT_EQ(Answer(client.listen().text).body, "up 1\n");
}

TEST(StatusServer, AHammeringClientWaits) {
  StatusLimits limits;
  limits.connections_a_second = 1e-3;
  limits.burst = 20;
  const Served served(limits);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get(served.port(), "/").code, 200);
  const Connection beyond(served.port());
  beyond.say(request_text("/"));
  EXPECT_FALSE(beyond.hears(300ms));  // for a quarter of an hour
}

TEST(StatusServer, WhoWaitedIsServed) {
  StatusLimits limits;
  limits.connections_a_second = 50;
  limits.burst = 1;
  const Served served(limits);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(get(served.port(), "/").code, 200);
}

TEST(StatusServer, EndsWhileClientsHangOn) {
  auto served = std::make_unique<Served>();
  std::vector<Connection> clients;
  for (int i = 0; i < 30; ++i) clients.emplace_back(served->port()).say(i % 2 == 0 ? "GET /" : "");
  served.reset();
  for (const auto& client : clients) EXPECT_TRUE(client.listen().ended);
}

// -- access -----------------------------------------------------------------------

constexpr const char* secret = "0123456789abcdef/+";

TEST(StatusServer, WantsTheTokenWhereItHasOne) {
  const Served served(hurried(), secret);
  const auto code = [&](const std::string& target, const std::string& more = "") { return get(served.port(), target, more).code; };
  EXPECT_EQ(code("/status"), 401);
  EXPECT_EQ(code("/nowhere"), 401);
  EXPECT_TRUE(get(served.port(), "/").has("WWW-Authenticate: Bearer"));
  EXPECT_EQ(code("/status", "Authorization: Bearer wrong\r\n"), 401);
  EXPECT_EQ(code("/status", "Authorization: Bearer 0123456789abcdef/\r\n"), 401);
  EXPECT_EQ(code("/status", "Authorization: Basic " + std::string(secret) + "\r\n"), 401);
  EXPECT_EQ(code("/status?token="), 401);
  EXPECT_EQ(code("/status", "Authorization: Bearer " + std::string(secret) + "\r\n"), 200);
  EXPECT_EQ(code("/status", "authorization: bearer " + std::string(secret) + "\r\n"), 200);
  EXPECT_EQ(code("/status?token=0123456789abcdef%2F%2b"), 200);
  EXPECT_EQ(code("/status?a=1&token=0123456789abcdef/+"), 200);
  EXPECT_EQ(code("/nowhere?token=0123456789abcdef/+"), 404);
  EXPECT_EQ(get(served.port(), "/?token=0123456789abcdef/+").body, "<p>a page");
}

TEST(StatusServer, RefusesAStrangeNameForItself) {
  const Served served;
  const auto code = [&](const std::string& host) { return ask(served.port(), "GET / HTTP/1.1\r\n" + host + "\r\n").code; };
  EXPECT_EQ(code("Host: localhost:1234\r\n"), 200);
  EXPECT_EQ(code("Host: [::1]:1234\r\n"), 200);
  EXPECT_EQ(code("Host: somewhere.example\r\n"), 421);
  EXPECT_EQ(code("Host: 127.0.0.1.somewhere.example:80\r\n"), 421);
  EXPECT_EQ(code(""), 421);
}

TEST(StatusServer, AnAddressForOthersWantsAToken) {
  auto config = free_port();
  for (const char* address : {"0.0.0.0", "::"}) {
    config.address = address;
    const auto error = error_of(ExitCode::config, config);
    EXPECT_TRUE(contains(error, address) && contains(error, "status.token_file")) << error;
  }
  config.address = "0.0.0.0";
  StatusServer server(config, secret, hurried());
  server.start(pages());
  EXPECT_EQ(get(server.port(), "/").code, 401);
  config.address = "somewhere";
  EXPECT_TRUE(contains(error_of(ExitCode::config, config), "status.address = \"somewhere\""));
}

TEST(StatusServer, NamesAPortThatIsTaken) {
  const Served served;
  EXPECT_EQ(served.server.url(), "http://127.0.0.1:" + std::to_string(served.port()) + "/");
  StatusConfig config;
  config.port = served.port();
  const auto error = error_of(ExitCode::start, config);
  EXPECT_TRUE(contains(error, "port " + std::to_string(served.port())) && contains(error, "in use")) << error;
}

// -- parts ------------------------------------------------------------------------------

TEST(StatusRequest, TakesATargetApart) {
  EXPECT_EQ(parse_target("/").path, "/");
  EXPECT_EQ(parse_target("/status?token=a%2Fb&c").token, "a/b");
  EXPECT_EQ(parse_target("/status?xtoken=a&token=b").token, "b");
  EXPECT_EQ(parse_target("/status?token=%zz%4").token, "%zz%4");
  EXPECT_EQ(parse_target("?&&").path, "");
}

TEST(StatusRequest, KnowsItsOwnHost) {
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1", "10.1.2.3:80", "[::1]", "[fe80::1]:80"})
    EXPECT_TRUE(is_own_host(host)) << host;
  for (const char* host : {"", ":80", "a.localhost", "localhost.example", "127.0.0.1.example", "[]", "[", "]:"})
    EXPECT_FALSE(is_own_host(host)) << host;
}

}  // namespace
}  // namespace millrace::cluster
