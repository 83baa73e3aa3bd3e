// tests/live/layouts.cc: containers and objects of known counts, for test_layouts.py. Prints
// "ready" and waits for its input to end. Counts are primes, so that none is another's by chance.
#include <cstdio>
#include <exception>
#include <list>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace app {

struct Widget {
    long a = 1, b = 2;
    virtual ~Widget() = default;
};

struct Gadget : Widget {
    std::string name;
    std::map<int, int> parts;
};

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace app

static std::vector<std::exception_ptr> errors;

static void keep_error()
{
    try {
        throw app::Error("kept");
    } catch (...) {
        errors.push_back(std::current_exception());
    }
}

int main()
{
    std::vector<app::Widget *> widgets;
    widgets.reserve(1021);
    for (int i = 0; i < 1009; i++)
        widgets.push_back(new app::Widget);
    for (int i = 0; i < 503; i++)
        new app::Gadget;
    std::map<std::string, int> tree;
    for (int i = 0; i < 2003; i++)
        tree["k" + std::to_string(i)] = i;
    std::unordered_map<std::string, int> hash;
    for (int i = 0; i < 3001; i++)
        hash["h" + std::to_string(i)] = i;
    std::list<long> list;
    for (int i = 0; i < 499; i++)
        list.push_back(i);
    std::vector<std::string> texts;
    for (int i = 0; i < 211; i++)
        texts.push_back(std::string(100, 'a') + " a longer text with words " + std::to_string(i));
    errors.reserve(97);
    for (int i = 0; i < 97; i++)
        keep_error();
    std::puts("ready");
    std::fflush(stdout);
    while (std::getchar() != EOF)
        continue;
    return 0;
}
