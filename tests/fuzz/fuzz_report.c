/* tests/fuzz/fuzz_report.c: bytes as an earlier report, and bytes as a string of a target.
 *
 * Oracle, beyond not crashing: whatever is written is JSON that jansson reads, holds no control
 * byte, and a moment compared with itself has changed by nothing. */
#include "analysis_fixture.h"

#include "report/verify.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void require_clean(const struct fixture_output *output)
{
    for (size_t i = 0; i < output->length; i++) {
        unsigned char c = (unsigned char)output->text[i];
        require(c == '\n' || (c >= 0x20 && c != 0x7f));
    }
}

static void require_json(struct fixture_output *output)
{
    json_error_t problem;
    /* integers beyond 2^63 are valid JSON that jansson reads as doubles only */
    json_t *document = json_loadb(output->text, output->length, JSON_DECODE_INT_AS_REAL, &problem);
    require(document != NULL);
    json_decref(document);
}

/* Every string comes out as valid JSON, with as many characters as it had bytes at most. */
static void check_string(const uint8_t *bytes, size_t size)
{
    struct fixture_output output = {0};
    struct mw_json json;
    json_error_t problem;
    mw_json_init(&json, fixture_sink(&output));
    mw_json_array_begin(&json);
    mw_json_put_bytes(&json, bytes, size);
    mw_json_array_end(&json);
    require(mw_json_finish(&json, NULL) == MW_OK);
    require_clean(&output);
    json_t *document = json_loadb(output.text, output.length, JSON_ALLOW_NUL, &problem);
    require(document && json_is_string(json_array_get(document, 0)));
    require(json_string_length(json_array_get(document, 0)) <= 3 * size);
    json_decref(document);
    fixture_output_release(&output);
}

static void check_comparison(const struct mw_baseline *baseline)
{
    static const char *const names[2] = {"before.json", "after.json"};
    struct fixture_output output = {0};
    struct mw_verify verify;
    require(mw_verify_compare(baseline, baseline, &verify, NULL) == MW_OK);
    require(verify.met + verify.not_met <= verify.count);
    for (size_t i = 0; i < verify.count; i++)
        require(!verify.predictions[i].has_actual || verify.predictions[i].actual_bytes == 0);
    require(mw_report_verify_json(&verify, NULL, fixture_sink(&output), NULL) == MW_OK);
    require_clean(&output);
    require_json(&output);
    fixture_output_release(&output);
    require(mw_report_verify_text(&verify, names, (struct mw_text_look){100, false},
                                  fixture_sink(&output), NULL) == MW_OK);
    require_clean(&output);
    fixture_output_release(&output);
    mw_verify_deinit(&verify);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct mw_baseline baseline;
    struct mw_error err = {0};
    check_string(bytes, size);
    (void)mw_baseline_recognize((const char *)bytes, size);
    if (mw_baseline_parse((const char *)bytes, size, "fuzz", &baseline, &err) == MW_OK) {
        check_comparison(&baseline);
        mw_baseline_deinit(&baseline);
    } else {
        require(err.text[0] != '\0');
    }
    return 0;
}
