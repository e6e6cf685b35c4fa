#include "cluster/status/status_server.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "cluster/host/launcher.hpp"
#include "cluster/status/status_connection.hpp"
#include "cluster/status/status_request.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* component = "cluster.status";
constexpr int backlog = 64;
constexpr auto accept_again = std::chrono::seconds(1);  // after the system had no free descriptor

/// A token bucket: a rate per second, and a burst after a pause.
class Allowance {
 public:
  Allowance(double a_second, double burst) : a_second_(a_second), burst_(std::max(burst, 1.0)), left_(burst_) {}
  /// Takes one; if there is none, returns the time until there is.
  std::optional<Clock::duration> take(Clock::time_point now) {
    left_ = std::min(burst_, left_ + a_second_ * std::chrono::duration<double>(now - last_).count());
    last_ = now;
    if (left_ < 1) return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>((1 - left_) / a_second_));
    left_ -= 1;
    return std::nullopt;
  }

 private:
  double a_second_, burst_, left_;
  Clock::time_point last_ = Clock::now();
};

struct ServedPage : StatusPage {
  std::shared_ptr<const std::string> made;
  Clock::time_point made_at;
};

asio::ip::tcp::endpoint endpoint_of(const StatusConfig& config, bool has_token) {
  error_code error;
  const auto address = asio::ip::make_address(config.address, error);
  MILLRACE_CHECK(!error, ExitCode::config, component, "status.address = \"{}\", expected an IP address such as 127.0.0.1 or 0.0.0.0",
                 config.address);
  MILLRACE_CHECK(address.is_loopback() || has_token, ExitCode::config, component,
                 "status.address = {} can be reached from other machines, expected a token too: status.token_file", config.address);
  MILLRACE_CHECK(config.port >= 0 && config.port <= 65535, ExitCode::config, component, "status.port = {}, expected 0 to 65535",
                 config.port);
  return {address, static_cast<unsigned short>(config.port)};
}

}  // namespace

class StatusServer::State {
 public:
  State(const StatusConfig& config, const std::string& token_text, const StatusLimits& to_keep)
      : limits(to_keep), token(token_text), allowance(to_keep.connections_a_second, to_keep.burst), acceptor(io), pause(io) {
    const auto endpoint = endpoint_of(config, token.required());
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(backlog, error);
    MILLRACE_CHECK(!error, ExitCode::start, component,
                   "{} port {}: {}; expected a free status.port (0 finds one) at an address of this host", config.address, config.port,
                   error.message());
    fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
    local = acceptor.local_endpoint();
  }

  void run() {
    pthread_setname_np(pthread_self(), "status");
    // It preempts no other thread when it wakes (SCHED_BATCH), and if a worker needs the same core it gets a seventieth of it.
    // Not SCHED_IDLE: on a machine with more work than cores that would get almost nothing, which is when monitoring matters
    // most.
    const sched_param batch{};
    sched_setscheduler(0, SCHED_BATCH, &batch);
    static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19));
    while (!io.stopped()) {
      try {
        io.run();
      } catch (const std::exception&) {
        // An error of one connection, which is closed. Monitoring must not end a run.
        asio::post(io, [this] { accept_next(); });
      }
    }
  }

  /// Does nothing if an accept is pending already.
  void accept_next() {
    if (accepting) return;
    if (open >= limits.connections) {
      full = true;
      return;
    }
    accepting = true;
    if (const auto wait = allowance.take(Clock::now())) return accept_after(*wait);
    acceptor.async_accept([this](const error_code& error, asio::ip::tcp::socket socket) {
      accepting = false;
      if (error == asio::error::operation_aborted) return;
      if (error && error != asio::error::connection_aborted) return accept_after(accept_again);
      if (!error) {
        fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
        const auto connection = std::make_shared<StatusConnection>(
            std::move(socket), limits, [this](const auto& request) { return answer(request); }, [this] { ended(); });
        ++open;
        connection->read();
      }
      accept_next();
    });
  }

  void accept_after(Clock::duration wait) {
    accepting = true;
    pause.expires_after(wait);
    pause.async_wait([this](const error_code& error) {
      accepting = false;
      if (!error) accept_next();
    });
  }

  /// Called by a connection's destructor.
  void ended() {
    --open;
    if (!full || stopping) return;
    full = false;
    asio::post(io, [this] { accept_next(); });
  }

  StatusAnswer answer(const StatusConnection::Request& request) {
    const auto text = [](boost::beast::string_view view) { return std::string_view(view.data(), view.size()); };
    const auto target = parse_target(text(request.target()));
    if (token.required()) {
      const bool known = token.matches_header(text(request[http::field::authorization])) || token.matches(target.token);
      if (!known)
        return status_error(401, "a token is expected: Authorization: Bearer TOKEN, or ?token=TOKEN", "WWW-Authenticate: Bearer\r\n");
    } else if (!is_own_host(text(request[http::field::host]))) {
      return status_error(421, "expected a Host that is localhost or an IP address");
    }
    if (request.version() / 10 != 1) return status_error(505, "expected HTTP/1.1");
    const auto page = std::find_if(pages.begin(), pages.end(), [&](const ServedPage& each) { return each.path == target.path; });
    if (page == pages.end()) return status_error(404, "there is no such page");
    const bool posts = request.method() == http::verb::post;
    if (page->order && !posts) return status_error(405, "expected POST", "Allow: POST\r\n");
    if (!page->order && (posts || (request.method() != http::verb::get && request.method() != http::verb::head)))
      return status_error(405, "expected GET or HEAD", "Allow: GET, HEAD\r\n");
    if (page->order && !is_own_origin(text(request[http::field::origin]), text(request[http::field::host])))
      return status_error(403, "a page of another site may not request this");
    try {
      return answer_with(*page);
    } catch (const std::exception& error) {
      return status_error(page->order ? 409 : 500, error.what());
    }
  }

  static StatusAnswer answer_with(ServedPage& page) {
    const auto now = Clock::now();
    if (!page.made || page.order || now - page.made_at > page.max_age) {
      page.made = std::make_shared<const std::string>(page.text());
      page.made_at = now;
    }
    StatusAnswer answer;
    if (page.order) answer.code = 202;
    answer.content_type = page.content_type;
    answer.text = page.made;
    return answer;
  }

  const StatusLimits limits;
  const StatusToken token;
  Allowance allowance;
  std::vector<ServedPage> pages;
  asio::ip::tcp::endpoint local;
  std::size_t open = 0;  // number of connections
  bool full = false;     // accept_next() waits until a connection ends
  bool accepting = false;
  bool stopping = false;
  asio::io_context io{1};  // declared after everything that its connections still use when they are destroyed
  asio::ip::tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::thread thread;
};

StatusServer::StatusServer(const StatusConfig& config, const std::string& token, const StatusLimits& limits)
    : state_(std::make_unique<State>(config, token, limits)) {}

StatusServer::~StatusServer() { stop(); }

void StatusServer::start(std::vector<StatusPage> pages) {
  for (auto& page : pages) state_->pages.push_back({std::move(page), nullptr, {}});
  state_->accept_next();
  state_->thread = std::thread([this] { state_->run(); });
}

void StatusServer::stop() {
  state_->io.stop();
  if (state_->thread.joinable()) state_->thread.join();
  state_->stopping = true;
  error_code ignored;
  state_->acceptor.close(ignored);
}

int StatusServer::port() const noexcept { return state_->local.port(); }

std::string StatusServer::url() const {
  const auto address = state_->local.address();
  std::string host = address.to_string();
  if (address.is_unspecified()) {
    host = host_name();
  } else if (address.is_v6()) {
    host = "[" + host + "]";
  }
  return fmt::format("http://{}:{}/", host, port());
}

}  // namespace millrace::cluster
