/* maps/content.c: a sample of bytes → a kind.
 *
 * Text is decided by the share of printable bytes and its punctuation; words are decided one by
 * one: zero, small number, pointer into a writable anonymous region, pointer into a module. What
 * is neither and looks uniformly distributed is compressed (or encrypted, or random). */
#include "maps/content.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

const char *mw_content_name(enum mw_content content)
{
    static const char *const names[MW_CONTENT_COUNT] = {
        [MW_CONTENT_ZERO] = "zero bytes",
        [MW_CONTENT_TEXT] = "text",
        [MW_CONTENT_JSON] = "JSON text",
        [MW_CONTENT_XML] = "XML text",
        [MW_CONTENT_SQL] = "SQL text",
        [MW_CONTENT_POINTERS] = "nodes and tables of pointers",
        [MW_CONTENT_OBJECTS] = "objects",
        [MW_CONTENT_NUMBERS] = "numbers",
        [MW_CONTENT_COMPRESSED] = "compressed or random data",
        [MW_CONTENT_MIXED] = "mixed data",
    };
    assert(content < MW_CONTENT_COUNT);
    return names[content];
}

static bool contains_word(const char *text, size_t length, const char *word)
{
    size_t word_length = strlen(word);
    for (size_t i = 0; i + word_length <= length; i++)
        if (strncasecmp(text + i, word, word_length) == 0)
            return true;
    return false;
}

/* By its punctuation, then by a few keywords. */
enum mw_content mw_content_text_kind(const uint8_t *bytes, size_t length)
{
    size_t quotes = 0, json = 0, angles = 0;
    for (size_t i = 0; i < length; i++) {
        quotes += bytes[i] == '"';
        json += bytes[i] == '{' || bytes[i] == '}' || bytes[i] == ':' || bytes[i] == ',' ||
                bytes[i] == '[' || bytes[i] == ']';
        angles += bytes[i] == '<' || bytes[i] == '>';
    }
    if (quotes * 32 >= length && json * 32 >= length)
        return MW_CONTENT_JSON;
    if (angles * 32 >= length)
        return MW_CONTENT_XML;
    const char *text = (const char *)bytes;
    if (contains_word(text, length, "select ") || contains_word(text, length, "insert into ") ||
        contains_word(text, length, " where "))
        return MW_CONTENT_SQL;
    return MW_CONTENT_TEXT;
}

struct word_counts {
    size_t words, zero, small, heap, module;
    bool first_is_module;
};

static struct word_counts words_count(const struct mw_image *image, const uint8_t *bytes,
                                      size_t length)
{
    struct word_counts counts = {.words = length / 8};
    for (size_t i = 0; i < counts.words; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * i, 8);
        if (word == 0) {
            counts.zero++;
        } else if (word < (1u << 24) || word > (uint64_t) - (1 << 24)) {
            counts.small++;
        } else {
            const struct mw_mapping *map = mw_image_region(image, word);
            if (!map)
                continue;
            bool is_module = map->name[0] == '/' && !(map->perms & MW_PERM_SHARED);
            counts.module += is_module;
            counts.heap += !is_module;
            if (i == 0)
                counts.first_is_module = is_module;
        }
    }
    return counts;
}

/* Distinct byte values of a uniform sample: 256 random bytes show about 162. */
static size_t distinct_bytes(const uint8_t *bytes, size_t length)
{
    uint8_t seen[256] = {0};
    size_t distinct = 0;
    for (size_t i = 0; i < length; i++)
        distinct += !seen[bytes[i]]++;
    return distinct;
}

enum mw_content mw_content_classify(const struct mw_image *image, const uint8_t *bytes,
                                    size_t length)
{
    size_t printable = 0, zero = 0;
    for (size_t i = 0; i < length; i++) {
        printable += isprint(bytes[i]) || bytes[i] == '\n' || bytes[i] == '\t' || bytes[i] == '\r';
        zero += bytes[i] == 0;
    }
    if (zero == length)
        return MW_CONTENT_ZERO;
    if (printable * 10 >= length * 9)
        return mw_content_text_kind(bytes, length);
    struct word_counts counts = words_count(image, bytes, length);
    size_t pointers = counts.heap + counts.module;
    if (counts.first_is_module || counts.module * 8 >= counts.words)
        return MW_CONTENT_OBJECTS;
    if (pointers * 4 >= counts.words)
        return MW_CONTENT_POINTERS;
    if (distinct_bytes(bytes, length) * 2 >= length && zero * 16 < length)
        return MW_CONTENT_COMPRESSED;
    if ((counts.zero + counts.small) * 2 >= counts.words)
        return MW_CONTENT_NUMBERS;
    return MW_CONTENT_MIXED;
}
